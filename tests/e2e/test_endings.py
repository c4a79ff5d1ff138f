"""How things end: objects that are deleted, and the operator that is told to stop."""

import os
import signal
import socket

import pytest

from lab.processes import wait_for
from lab.scene import Scene
from tests.e2e.views import (
    card,
    changes,
    condition,
    events,
    manifest,
    manifests,
    phases,
    show,
    status,
    topology,
    wait_for_mode,
    wait_for_polls,
    wait_for_status,
    window,
)

STOP_SECONDS = 5


def everything(scene: Scene) -> list[str]:
    return scene.kubectl("get", "gpunodes,runtimetopologies", "--output=name").split()


def delete_everything(scene: Scene) -> None:
    scene.kubectl("delete", "gpunodes,runtimetopologies", "--all", "--timeout=10s")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_operator_ends_well_when_told_to_and_nothing_needs_it_to_be_deleted(
    scene: Scene, number: signal.Signals
) -> None:
    show(scene, "node-1")
    scene.kubectl.apply(manifests(card(scene, "rx9070", "node-1")))
    operator = scene.operator().start()
    wait_for_mode(scene, operator, "single_gpu", rx9070="online")

    os.kill(operator.pid, number)

    assert operator.wait(STOP_SECONDS) == 0
    delete_everything(scene)
    assert everything(scene) == []


def test_a_topology_is_created_whenever_the_last_one_is_deleted(scene: Scene) -> None:
    scene.kubectl.apply(manifests(card(scene, "rx9070", "node-1"), manifest("RuntimeTopology", "mine")))
    operator = scene.operator().start()
    wait_for("a judgement of the card", lambda: phases(scene)["rx9070"], 30, operator)
    wait_for_polls(scene, operator, 2)
    assert everything(scene) == ["gpunode.runtime.ialab.dev/rx9070", "runtimetopology.runtime.ialab.dev/mine"]
    earlier: list[str | None] = [None]
    for _ in range(2):
        delete_everything(scene)

        wait_for("another topology", lambda: uid(scene) not in earlier, 30, operator)
        started = wait_for_status(scene, operator, mode="inventory_only")
        new = topology(scene)
        assert everything(scene) == ["runtimetopology.runtime.ialab.dev/cluster"]
        assert new["spec"] == {"stabilizationSeconds": 30}
        assert new["metadata"].keys().isdisjoint({"annotations", "finalizers", "ownerReferences"})
        assert changes(started) == [(None, "inventory_only")]
        assert events(scene, new, 1) == ["Mode started as inventory_only, degradation HEAVY 2: 0 of 0 cards online"]
        earlier.append(uid(scene))


def uid(scene: Scene) -> str | None:
    found: str | None = topology(scene).get("metadata", {}).get("uid")
    return found


def test_the_operator_ends_well_while_prometheus_owes_it_an_answer(scene: Scene) -> None:
    scene.kubectl.apply(manifests(window(0)))
    with socket.create_server((f"{scene.network}41", 0)) as mute:
        mute.settimeout(30)
        settings = {"PROMETHEUS_URL": f"http://{scene.network}41:{mute.getsockname()[1]}", "POLL_SECONDS": "60"}
        operator = scene.operator(**settings).start()
        mute.accept()[0].close()
        wait_for(
            "a first pass is over", lambda: condition(status(scene), "SourceAvailable")[0] == "False", 30, operator
        )
        # Only a watch makes it ask again so soon: it has started altogether.
        scene.kubectl.apply(manifests(card(scene, "rx9070", "node-1")))
        with mute.accept()[0] as connection:
            assert connection.recv(3) == b"GET"

            os.kill(operator.pid, signal.SIGTERM)

            assert operator.wait(STOP_SECONDS) == 0
