"""GpuNodes that an older CRD let in, which the operator has to live with."""

from pathlib import Path

import pytest
import yaml

from lab.processes import wait_for
from lab.scene import Scene
from tests.e2e.views import card, changes, condition, manifest, manifests, nodes, show, status, wait_for_mode, window

CRD = Path(__file__).parents[2] / "crds" / "gpunodes.yaml"
BAD: dict[str, dict[str, object]] = {"misspelt": {"host": "192.168.1.70", "vramGb": "16"}, "homeless": {"vramGb": 16}}
MESSAGES = {
    "misspelt": "spec.vramGb: Input should be a valid integer; edit this GpuNode",
    "homeless": "spec.host: Field required; edit this GpuNode",
}


@pytest.fixture
def bad(scene: Scene, tmp_path: Path) -> None:
    """Store the bad GpuNodes under a CRD that takes any spec, and bring back the real one."""
    older = yaml.safe_load(CRD.read_text())
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    probe = tmp_path / "probe.json"
    probe.write_text(manifests(manifest("GpuNode", "probe", **BAD["misspelt"])))

    def is_taken() -> bool:
        return scene.kubectl.succeeds("create", f"--filename={probe}", "--dry-run=server")

    try:
        scene.kubectl.apply(manifests(older))
        wait_for("the older CRD takes a bad spec", is_taken, 30)
        scene.kubectl.apply(manifests(*(manifest("GpuNode", name, **spec) for name, spec in BAD.items())))
    finally:
        scene.kubectl("apply", f"--filename={CRD}")
        wait_for("the real CRD refuses a bad spec", lambda: not is_taken(), 30)


@pytest.mark.usefixtures("bad")
def test_a_spec_that_cannot_be_read_is_reported_on_its_object_and_troubles_no_other(scene: Scene) -> None:
    show(scene, "node-1")
    scene.kubectl.apply(manifests(window(0), card(scene, "rx9070", "node-1")))
    operator = scene.operator().start()

    wait_for_mode(scene, operator, "single_gpu", rx9070="online", misspelt="unknown", homeless="unknown")

    stored = nodes(scene)
    for name, message in MESSAGES.items():
        assert stored[name]["spec"] == {**BAD[name], "expectedOffline": False}
        said = stored[name]["status"]
        assert (said["health"], said["reason"], said["message"]) == ("unknown", "InvalidSpec", message)
        assert condition(said, "Ready") == ("False", "InvalidSpec")
    assert condition(stored["rx9070"]["status"], "Ready") == ("True", "Current")
    published = status(scene)
    assert condition(published, "Ready") == ("True", "Current")
    assert changes(published) == [(None, "single_gpu")]
    assert [entry["name"] for entry in published["activeGpus"]] == ["rx9070"]
    entry = {"status": "unknown", "expectedOffline": False}
    assert published["unknownGpus"] == [{"name": name, "model": name, **entry} for name in ("homeless", "misspelt")]

    scene.kubectl.apply(manifests(*(card(scene, name, "node-1") for name in BAD)))

    wait_for_mode(scene, operator, "multi_gpu", rx9070="online", misspelt="online", homeless="online")
