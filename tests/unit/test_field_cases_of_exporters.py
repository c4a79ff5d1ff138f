"""What exporters did to people in the field, and what becomes of the cards; each test has the number of its report."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from controller.facts import (
    CardSelector,
    GpuNode,
    GpuNodeSpec,
    GpuNodeStatus,
    Instant,
    Phase,
    Policy,
    Sample,
    Survey,
    Target,
    TargetHealth,
    TargetSelector,
)
from controller.manifests import Declared
from controller.names import Reason
from controller.plan import Plan
from controller.profiles import built_in
from controller.readings import BOUNDS, values

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
LABELS = {"job": "gpu", "instance": "gpu-server"}  # U04: a target that goes by a friendly name
HOST = "192.168.1.50"
TARGET = Target(f"http://{HOST}:9835/metrics", HOST, 9835, LABELS, TargetHealth.UP, "")
UUIDS = ("a", "b", "c", "d")
OWN_METRICS = {"nvidia_smi_last_collect_success": 0.0, "nvidia_smi_command_exit_code": 9.0}

Line = tuple[str, float, Mapping[str, str]]


class Fleet:
    """Cards of one host behind one nvidia_gpu_exporter, looked at every five seconds."""

    def __init__(self, *uuids: str) -> None:
        nodes = (
            GpuNode(
                name=uuid,
                uid=uuid,
                generation=1,
                spec=GpuNodeSpec(
                    host=HOST,
                    vram_gb=24,
                    target=TargetSelector(ports=(9835,)),
                    card=CardSelector(match_labels={"uuid": uuid}),
                ),
            )
            for uuid in uuids
        )
        self._plan = Plan(Declared(tuple(nodes), ()), Policy(profiles=built_in(), telemetry_seconds=0))
        self._passes = 0

    def looks(self, lines: Iterable[Line], passes: int = 3) -> Mapping[str, GpuNodeStatus]:
        """Show the same page for some passes, and return what the cards are then."""
        samples = tuple(Sample(name, {"__name__": name, **LABELS, **labels}, value) for name, value, labels in lines)
        for _ in range(passes):
            seconds = 5.0 * self._passes
            self._passes += 1
            self._plan.take_in(Survey((TARGET,), samples), Instant(START + timedelta(seconds=seconds), seconds))
        return {node.name: node.status for node in self._plan.nodes if node.status}


def page(*uuids: str, temperature: float = 40) -> list[Line]:
    own: list[Line] = [("nvidia_smi_last_collect_success", 1, {})]
    for uuid in uuids:
        own += [
            ("nvidia_smi_gpu_info", 1, {"uuid": uuid, "name": "RTX 3090", "index": str(UUIDS.index(uuid))}),
            ("nvidia_smi_temperature_gpu", temperature, {"uuid": uuid}),
        ]
    return own


FAILED: list[Line] = [(name, value, {}) for name, value in OWN_METRICS.items()]


def phases(statuses: Mapping[str, GpuNodeStatus]) -> Mapping[str, tuple[Phase, Reason]]:
    return {name: (status.phase, status.reason) for name, status in statuses.items()}


ONLINE, GONE = (Phase.ONLINE, Reason.TARGETS_UP), (Phase.UNEXPECTED_DOWN, Reason.METRICS_MISSING)


def test_g01_a_card_that_fell_off_the_bus_is_down_and_the_others_stay() -> None:
    fleet = Fleet(*UUIDS)
    assert phases(fleet.looks(page(*UUIDS))) == dict.fromkeys(UUIDS, ONLINE)
    assert phases(fleet.looks(page("a", "b", "d"))) == {**dict.fromkeys(UUIDS, ONLINE), "c": GONE}


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(FAILED, id="G02: it shows its own metrics alone"),
        pytest.param([*page("a")[1:], *FAILED], id="G02: it says that it collects nothing and shows the old values"),
        pytest.param([], id="P25: it shows an empty page"),
    ],
)
def test_an_exporter_that_is_up_and_collects_nothing_is_no_card(shown: list[Line]) -> None:
    fleet = Fleet("a")
    assert phases(fleet.looks(page("a"))) == {"a": ONLINE}
    assert phases(fleet.looks(shown)) == {"a": GONE}


def test_g03_a_card_is_back_as_soon_as_its_series_are() -> None:
    fleet = Fleet("a")
    assert phases(fleet.looks(FAILED)) == {"a": GONE}
    assert phases(fleet.looks(page("a"), passes=1)) == {"a": ONLINE}


def test_g04_values_that_stand_still_look_like_live_ones() -> None:
    fleet = Fleet("a")
    before = fleet.looks(page("a"))
    assert fleet.looks(page("a"), passes=120) == before
    assert phases(before) == {"a": ONLINE}


@pytest.mark.parametrize(
    "blank",
    [9223372036854775794, 140737488355328, 4294967295, math.nan, math.inf, -math.inf, -1e9, 0],
    ids=str,
)
def test_g07_what_stands_for_no_value_is_no_reading_and_takes_no_card_away(blank: float) -> None:
    statuses = Fleet("a").looks(page("a", temperature=blank))
    assert phases(statuses) == {"a": ONLINE}
    assert values(statuses["a"]) == dict.fromkeys(BOUNDS)


def test_u04_one_target_under_a_friendly_name_serves_four_cards() -> None:
    fleet = Fleet(*UUIDS)
    assert phases(fleet.looks(page(*UUIDS), passes=1)) == dict.fromkeys(UUIDS, ONLINE)
    assert phases(fleet.looks(FAILED)) == dict.fromkeys(UUIDS, GONE)
