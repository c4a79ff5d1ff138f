"""What other controllers rely on: a lease that ends with the operator, and no write that is not needed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.controlplane import ControlPlane
from lab.processes import wait_for
from lab.scene import Scene
from tests.e2e.views import card, manifests, show, status, time, topology, wait_for_mode, wait_for_polls, window

CRDS = Path(__file__).parents[2] / "crds"


def expired(found: dict[str, Any]) -> bool:
    """Apply the consumer's rule of docs/consumers.md."""
    return datetime.now(UTC) > time(found["observedAt"]) + timedelta(seconds=found["validForSeconds"])


def test_c12_the_lease_outlives_its_length_while_the_operator_lives_and_ends_after_its_death(scene: Scene) -> None:
    show(scene, "node-1")
    scene.kubectl.apply(manifests(window(0), card(scene, "rx9070", "node-1")))
    operator = scene.operator(VALID_FOR_SECONDS="3").start()
    wait_for_mode(scene, operator, "single_gpu", rx9070="online")
    first = time(status(scene)["observedAt"])

    def renewed() -> bool:
        found = status(scene)
        assert not expired(found)
        return time(found["observedAt"]) > first + timedelta(seconds=found["validForSeconds"])

    wait_for("the lease is renewed past its first end", renewed, 30, operator)
    operator.kill()
    wait_for("the lease has ended", lambda: expired(status(scene)), 30)
    assert status(scene)["mode"] == "single_gpu", "nobody has said otherwise"


def without(crd: dict[str, Any], part: str, *fields: str) -> dict[str, Any]:
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]["properties"]
    for field in fields:
        del properties[field]
    return crd


@pytest.fixture
def older(tmp_path: Path) -> Any:  # noqa: ANN401 - a generator
    """Start an API server whose CRDs lack fields that the operator writes."""
    with (
        ControlPlane.start(tmp_path / "plane") as plane,
        Scene(tmp_path / "scene", plane.kubeconfig, network="127.1.10.") as lab,
    ):
        topologies = yaml.safe_load((CRDS / "runtimetopologies.yaml").read_text())
        nodes = yaml.safe_load((CRDS / "gpunodes.yaml").read_text())
        without(topologies, "spec", "services")
        lab.kubectl.apply(
            manifests(
                without(topologies, "status", "observedAt", "truncated", "pendingCards"),
                without(nodes, "status", "model"),
            )
        )
        yield lab


def test_c06_fields_that_an_older_crd_drops_are_not_written_again_and_again(older: Scene) -> None:
    show(older, "node-1")
    older.kubectl.apply(manifests(window(0), card(older, "rx9070", "node-1")))
    operator = older.operator(TELEMETRY_SECONDS="3600").start()
    wait_for_mode(older, operator, "single_gpu", rx9070="online")
    wait_for_polls(older, operator, 2)

    def versions() -> list[str]:
        return [
            topology(older)["metadata"]["resourceVersion"],
            older.kubectl.json("get", "gpunode", "rx9070")["metadata"]["resourceVersion"],
        ]

    settled = versions()
    wait_for_polls(older, operator, 5)
    assert versions() == settled
