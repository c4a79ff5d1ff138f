"""`gpu-topology explain` with a real Prometheus, of a card in a real cluster and of one in a file."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.exporters import State
from lab.processes import wait_for
from lab.scene import Scene
from tests.conftest import Cluster

NETWORK = "127.1.23."


@pytest.fixture
def scene(cluster: Cluster, tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path, cluster.plane.kubeconfig, network=NETWORK) as scene:
        yield scene
        scene.kubectl("delete", "gpunodes,runtimetopologies", "--all")


def explain(scene: Scene, *words: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("gpu-topology"))
    return subprocess.run(
        [program, "explain", f"--prometheus={scene.prometheus.url}", *words],
        env={**os.environ, "KUBECONFIG": str(scene.kubectl.kubeconfig)},
        input=scene.samples,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("source", [[], ["--filename=-"]], ids=["in the cluster", "in a file"])
def test_a_card_is_explained(scene: Scene, source: list[str]) -> None:
    scene.hosts["node-1"].switch(State.UP)
    scene.kubectl.apply(scene.samples)
    wait_for("its series", lambda: "\nreason    TargetsUp\n" in explain(scene, "rx9070", *source).stdout, 30)
    done = explain(scene, "rx9070", *source)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"   yes   http://{NETWORK}50:9183/metrics   up   the scrape URL\n" in done.stdout
    assert "\n   2 on other hosts\n" in done.stdout
    series = f'gpu_temp_c{{instance="{NETWORK}50:9183", job="gpu-metrics"}}'
    assert re.search(rf"^   gpuTempC +3\d[.\d]* +{re.escape(series)} 3\d[.\d]*$", done.stdout, re.MULTILINE)
    nobody = explain(scene, "nobody", *source)
    assert (nobody.returncode, nobody.stdout, nobody.stderr) == (
        1,
        "",
        "gpu-topology: there is no GpuNode 'nobody'; there is rx7900xt, rx9070\n",
    )


def test_without_prometheus_nothing_is_explained(scene: Scene) -> None:
    scene.prometheus.stop()
    done = explain(scene, "rx9070", "--filename=-")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"gpu-topology: Prometheus at {scene.prometheus.url} cannot be reached: ")
