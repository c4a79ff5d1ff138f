"""`gpu-topology plan` with a real Prometheus, and no cluster at all."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.exporters import EXPORTER_PORT, METRICS_PORT, Host, State
from lab.processes import Process, wait_for
from lab.prometheus import Prometheus

NETWORK = "127.1.7."
SAMPLES = Path("manifests/samples/gpunodes.yaml").read_text().replace("192.168.1.", NETWORK)


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    hosts = [Host(f"{NETWORK}50"), Host(f"{NETWORK}60")]
    hosts[0].switch(State.UP)
    yield hosts
    for host in hosts:
        host.switch(State.DOWN)


@pytest.fixture
def prometheus(tmp_path: Path, hosts: list[Host]) -> Iterator[Prometheus]:
    prometheus = Prometheus(tmp_path / "prometheus", (f"{NETWORK}40", 9090))
    for_card = [(host.address, port) for host in hosts for port in (EXPORTER_PORT, METRICS_PORT)]
    prometheus.watch({"gpu": for_card})
    yield prometheus.start()
    prometheus.stop()


def command(prometheus: Prometheus, *words: str) -> list[str]:
    program = str(Path(sys.executable).with_name("gpu-topology"))
    return [program, "plan", "--filename=-", f"--prometheus={prometheus.url}", *words]


def plan(prometheus: Prometheus, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(prometheus, *words), input=SAMPLES, capture_output=True, text=True, check=False)


def test_a_plan_shows_what_prometheus_shows_now_and_fails_when_it_is_away(prometheus: Prometheus) -> None:
    def settled() -> dict[str, object] | None:
        snapshot: dict[str, object] = json.loads(plan(prometheus, "--output=snapshot").stdout)
        return snapshot if snapshot["mode"] == "degraded_single_gpu" else None

    wait_for("node 1 is scraped", settled, 20)
    table = plan(prometheus)
    assert (table.returncode, table.stderr) == (0, "")
    rows = [line.split()[:6] for line in table.stdout.splitlines()[1:3]]
    assert rows == [
        ["rx7900xt", "RX7900XT", f"{NETWORK}60", "20", "expected_offline", "ExporterDown"],
        ["rx9070", "RX9070", f"{NETWORK}50", "16", "online", "TargetsUp"],
    ]
    prometheus.stop()
    away = plan(prometheus)
    assert (away.returncode, away.stdout) == (1, "")
    assert away.stderr == (
        f"gpu-topology: Prometheus at {prometheus.url} cannot be reached: All connection attempts failed\n"
    )


def test_a_plan_that_watches_prints_each_change_until_it_is_interrupted(
    prometheus: Prometheus, hosts: list[Host], tmp_path: Path
) -> None:
    manifest = tmp_path / "gpunodes.yaml"
    manifest.write_text(SAMPLES)
    words = [f"--filename={manifest}", "--watch", "--output=table", "--poll-seconds=0.5"]
    log = tmp_path / "plan.log"
    watching = Process([word for word in command(prometheus, *words) if word != "--filename=-"], log).start()
    wait_for("one card", lambda: "1 of 2 cards online" in log.read_text(), 20, watching)
    hosts[1].switch(State.UP)
    wait_for("two cards, but a mode that waits", lambda: "pending       multi_gpu at" in log.read_text(), 20, watching)
    watching.signal(signal.SIGINT)
    assert watching.wait(10) == 130
    assert "Traceback" not in log.read_text()
