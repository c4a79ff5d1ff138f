"""The console script on a real API server and a real Prometheus."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.exporters import State
from lab.scene import Scene
from tests.conftest import Cluster
from tests.e2e.views import manifests, wait_for_mode, window


@pytest.fixture
def scene(cluster: Cluster, tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path, cluster.plane.kubeconfig, network="127.1.8.", scrape_seconds=1) as scene:
        yield scene
        scene.kubectl("delete", "gpunodes,runtimetopologies", "--all")


def test_a_day_of_the_lab(scene: Scene) -> None:
    scene.hosts["node-1"].switch(State.UP)
    scene.kubectl.apply(scene.samples)
    scene.kubectl.apply(manifests(window(2)))
    operator = scene.operator().start()
    wait_for_mode(scene, operator, "degraded_single_gpu", rx9070="online", rx7900xt="expected_offline")
    scene.hosts["node-2"].switch(State.UP)
    wait_for_mode(scene, operator, "multi_gpu", rx9070="online", rx7900xt="online")
    scene.hosts["node-1"].switch(State.DOWN)
    wait_for_mode(scene, operator, "degraded_single_gpu", rx9070="unexpected_down", rx7900xt="online")
    scene.prometheus.stop()
    scene.kubectl("wait", "--for=condition=SourceAvailable=False", "--timeout=30s", "runtimetopology/cluster")
    wait_for_mode(scene, operator, "degraded_single_gpu", rx9070="unexpected_down", rx7900xt="online")
    scene.prometheus.start()
    scene.kubectl("wait", "--for=condition=Ready", "--timeout=30s", "runtimetopology/cluster")
    scene.hosts["node-2"].switch(State.DOWN)
    wait_for_mode(scene, operator, "inventory_only", rx9070="unexpected_down", rx7900xt="expected_offline")
    assert "PhaseChanged" in scene.kubectl("describe", "gpunode", "rx9070")
    operator.stop()
