"""The console script on a real API server and a real Prometheus."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.exporters import State
from lab.processes import Process, wait_for
from lab.scene import Scene
from tests.conftest import Cluster

WINDOW = "apiVersion: runtime.ialab.dev/v1alpha1\nkind: RuntimeTopology\nmetadata: {name: cluster}\n"
WINDOW += "spec: {stabilizationSeconds: 2}\n"


@pytest.fixture
def scene(cluster: Cluster, tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path, cluster.plane.kubeconfig, network="127.1.8.", scrape_seconds=1) as scene:
        yield scene
        scene.kubectl("delete", "gpunodes,runtimetopologies", "--all")


def wait_for_mode(scene: Scene, operator: Process, mode: str, **phases: str) -> None:
    def reached() -> bool:
        topology = scene.kubectl.json("get", "runtimetopology", "cluster").get("status", {})
        nodes = {
            item["metadata"]["name"]: item.get("status", {}).get("phase")
            for item in scene.kubectl.json("get", "gpunodes")["items"]
        }
        return topology.get("mode") == mode and nodes == phases

    wait_for(f"mode {mode} with {phases}", reached, 30, operator)


def test_a_day_of_the_lab(scene: Scene) -> None:
    scene.hosts["node-1"].switch(State.UP)
    scene.kubectl.apply(scene.samples)
    scene.kubectl.apply(WINDOW)
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
