"""Real servers of several kinds show the same host as up and as down, whatever each of them can be asked."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.access import HealthFrom, SourceConfig
from controller.facts import Survey, TargetHealth
from controller.prometheus import Prometheus
from lab import prometheus as lab
from lab.exporters import EXPORTER_PORT, METRICS_PORT, Host, State
from lab.processes import wait_for

NETWORK = "127.1.31."
URL = f"http://{NETWORK}40:9090"
Shown = tuple[set[tuple[str, int, TargetHealth]], set[str], str, bool, str]

READINGS = {"gpu_temp_c", "gpu_load_pct", "gpu_power_w", "gpu_fan_rpm"}
BY_TARGETS = f"Health from the targets API of {URL}, readings from queries to {URL}"
BY_UP = f"Health and readings from queries to {URL}, health by the series up"
WITHOUT_READINGS = f"Health from the targets API of {URL}; no readings, because it takes no queries"


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host(f"{NETWORK}50")
    host.switch(State.UP)
    yield host
    host.switch(State.DOWN)


def shown(health_from: HealthFrom) -> Shown | None:
    """Ask once, as one pass of the operator does."""

    async def ask() -> object:
        config = SourceConfig(targets=(URL,), query=(URL,), health_from=health_from)
        async with Prometheus(config, timeout_seconds=4.5, series=READINGS) as source:
            return await source.survey()

    survey = asyncio.run(ask())
    if not isinstance(survey, Survey):
        return None
    targets = {(target.host, target.port, target.health) for target in survey.targets}
    series = {sample.name for sample in survey.samples}
    return targets, series, survey.partial, survey.queryable, survey.source


@pytest.mark.parametrize(
    ("command", "health_from", "source"),
    [
        pytest.param(lab.server, "auto", BY_TARGETS, id="Prometheus"),
        pytest.param(lab.server, "up", BY_UP, id="Prometheus, by the series up"),
        pytest.param(lab.agent, "auto", WITHOUT_READINGS, id="Prometheus agent"),
        pytest.param(lab.vmagent, "auto", WITHOUT_READINGS, id="vmagent"),
        pytest.param(lab.victoria_metrics, "auto", BY_TARGETS, id="VictoriaMetrics"),
        pytest.param(lab.victoria_metrics, "up", BY_UP, id="VictoriaMetrics, by the series up"),
    ],
)
def test_a_host_comes_and_goes(
    command: Callable[[str], list[str | Path]],
    health_from: HealthFrom,
    source: str,
    host: Host,
    tmp_path: Path,
) -> None:
    server = lab.Prometheus(tmp_path / "prometheus", (f"{NETWORK}40", 9090), command=command)
    has_readings = source != WITHOUT_READINGS
    ports = (EXPORTER_PORT, METRICS_PORT)
    server.watch({"gpu": [(host.address, port) for port in ports]})

    def all_are(health: TargetHealth, series: set[str]) -> Shown:
        return {(host.address, port, health) for port in ports}, series, "", has_readings, source

    readings = READINGS if has_readings else set()
    up, down = all_are(TargetHealth.UP, readings), all_are(TargetHealth.DOWN, set())
    server.start()
    try:
        wait_for("the host is up, with its readings", lambda: shown(health_from) == up, 30)
        host.switch(State.DOWN)
        wait_for("the host is down", lambda: shown(health_from) == down, 30)
        host.switch(State.UP)
        wait_for("the host is back", lambda: shown(health_from) == up, 30)
    finally:
        server.stop()
