"""What a person sees with kubectl of an operator at work."""

import re

from lab.processes import wait_for
from lab.scene import Scene
from tests.e2e.views import events, manifests, show, topology, window

AGE = r"\d+s"
ROWS = {
    "gpunode/rx9070": (
        rf"rx9070 {{network}}50 16 online online 3[12]\S* 0 {AGE} {AGE} RX9070 false TargetsUp (4[89]\S*|50) 9[456]\d"
    ),
    "gpunode/rx7900xt": (
        rf"rx7900xt {{network}}60 20 online online 4[01]\S* 3 {AGE} {AGE} RX7900XT true TargetsUp 3[789]\S* 6[123]\d"
    ),
    "runtimetopology/cluster": rf"cluster multi_gpu NORMAL 0 2 0 0 {AGE} {AGE}",
}


def test_a_person_follows_the_runtime_with_kubectl_alone(scene: Scene) -> None:
    kubectl = scene.kubectl
    show(scene, "node-1")
    kubectl.apply(scene.samples)
    kubectl.apply(manifests(window(0)))
    operator = scene.operator().start()
    kubectl("wait", "--for=condition=Ready", "--timeout=20s", "runtimetopology/cluster", "gpunode/rx9070")
    assert names(kubectl("get", "gpunodes", "--field-selector=status.phase=online", "--output=name")) == ["rx9070"]
    show(scene, "node-1", "node-2")
    kubectl("wait", "--for=jsonpath={.status.mode}=multi_gpu", "--timeout=20s", "runtimetopology/cluster")
    kubectl("wait", "--for=condition=Degraded=False", "--timeout=20s", "runtimetopology/cluster")
    kubectl("wait", "--for=condition=Online", "--timeout=20s", "gpunode/rx7900xt")

    assert names(kubectl("get", "gpu", "--output=name")) == ["rx7900xt", "rx9070", "cluster"]
    for name, row in ROWS.items():
        seen = " ".join(kubectl("get", name, "--output=wide", "--no-headers").split())
        assert re.fullmatch(row.format(network=re.escape(scene.network)), seen), seen
    events(scene, topology(scene), 2)
    absent = "expected_offline: rx7900xt"
    assert sorted(described(kubectl("describe", "runtimetopology", "cluster"), "ModeChanged")) == [
        ("Normal", "Mode changed from degraded_single_gpu to multi_gpu, degradation NORMAL 0: 2 of 2 cards online"),
        ("Warning", f"Mode started as degraded_single_gpu, degradation LIGHT 1: 1 of 2 cards online; {absent}"),
    ]
    wait_for("kubectl explains", lambda: kubectl.succeeds("explain", "runtimetopology.status.degradation"), 30)
    explained = kubectl("explain", "runtimetopology.status.degradation")
    assert "What the mode means for routing." in explained
    assert all(field in explained for field in ("directives", "level", "name"))
    assert operator.running


def names(listed: str) -> list[str]:
    return [name.partition("/")[2] for name in listed.split()]


def described(text: str, reason: str) -> list[tuple[str, str]]:
    """Return type and message of the events with this reason; those of one second come in any order."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.partition("\nEvents:")[2].splitlines()]
    return [(cells[0], cells[-1]) for cells in lines if reason in cells]
