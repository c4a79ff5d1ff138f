"""What the commands print is safe and readable on a terminal, whatever texts the cluster holds."""

import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml

from controller import views
from controller.facts import (
    Counts,
    Degradation,
    DegradationName,
    Directive,
    GpuNode,
    GpuNodeSpec,
    GpuNodeStatus,
    Health,
    Mode,
    Phase,
    RuntimeTopologyStatus,
)
from controller.names import Reason

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
ONE_DOWN = RuntimeTopologyStatus(
    observed_generation=1,
    mode=Mode.INVENTORY_ONLY,
    degradation=Degradation(level=2, name=DegradationName.HEAVY, directives=(Directive.BLOCK_HEAVY_ROUTES,)),
    counts=Counts(total=1, unexpected_down=1),
)
TABLE = """\
NAME     MODEL    HOST           VRAM   PHASE             REASON       TEMP   LOAD   POWER   FAN
rx9070   rx9070   192.168.1.50   16     unexpected_down   TargetDown

mode          inventory_only
degradation   HEAVY, level 2
directives    block_heavy_routes
cards         0 of 1 cards online

rx9070   refused"""


def card(*, message: str = "refused", spec: GpuNodeSpec | None = None) -> GpuNode:
    status = GpuNodeStatus(
        observed_generation=1,
        phase=Phase.UNEXPECTED_DOWN,
        health=Health.OFFLINE,
        reason=Reason.TARGET_DOWN,
        message=message,
        last_transition_time=START,
    )
    spec = spec or GpuNodeSpec(host="192.168.1.50", vram_gb=16)
    return GpuNode(name="rx9070", uid="rx9070", generation=1, spec=spec, status=status)


@pytest.mark.parametrize(
    ("nodes", "status", "expected"),
    [
        pytest.param([card()], ONE_DOWN, TABLE, id="cards, what follows, and why one is off"),
        pytest.param([card()], None, "", id="nothing before the first judgement"),
        pytest.param([card()], replace(ONE_DOWN, mode=None), "", id="nothing before the first mode"),
        pytest.param(
            [card(message="\x1b]0;title\x07refused\x1b[2J\n\u202e!")],
            ONE_DOWN,
            TABLE.replace("refused", "]0;titlerefused[2J !"),
            id="no text can steer the terminal or break its line",
        ),
        pytest.param(
            [replace(card(), spec=None, problem="no host")],
            ONE_DOWN,
            """\
NAME     MODEL    HOST   VRAM   PHASE             REASON       TEMP   LOAD   POWER   FAN
rx9070   rx9070                 unexpected_down   TargetDown"""
            + TABLE[TABLE.index("\n\nmode") :],
            id="a card whose spec cannot be read",
        ),
        pytest.param(
            [card()],
            replace(ONE_DOWN, counts=Counts(total=10_000, unexpected_down=10_000)),
            TABLE.replace("\n\nmode", "\n… and 9999 more\n\nmode").replace("0 of 1 cards", "0 of 10000 cards"),
            id="cards that the status has no room for are counted",
        ),
    ],
)
def test_the_table_is(nodes: list[GpuNode], status: RuntimeTopologyStatus | None, expected: str) -> None:
    assert views.table(nodes, status) == expected


def test_colours_are_put_on_phases_and_the_mode_alone_and_move_no_column() -> None:
    expected = TABLE.replace("unexpected_down", "\x1b[31munexpected_down\x1b[0m")
    expected = expected.replace("inventory_only", "\x1b[31minventory_only\x1b[0m")
    assert views.table([card()], ONE_DOWN, colour=True) == expected


@pytest.mark.parametrize(
    ("terminal", "variables", "expected"),
    [
        pytest.param(True, {}, True, id="a terminal has colours"),
        pytest.param(False, {}, False, id="a file or a pipe has none"),
        pytest.param(True, {"NO_COLOR": "1"}, False, id="NO_COLOR says no"),
        pytest.param(True, {"NO_COLOR": ""}, True, id="an empty NO_COLOR says nothing"),
        pytest.param(True, {"TERM": "dumb"}, False, id="a dumb terminal has none"),
    ],
)
def test_colours(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, variables: dict[str, str], expected: bool) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert views.colours(stream) is expected


@pytest.mark.parametrize(
    ("text", "is_escaped"),
    [
        pytest.param("Größe", False, id="letters of any language stay"),
        pytest.param("\x1b[2J", True, id="a control sequence"),
        pytest.param("\x9b2J", True, id="a control sequence in one byte less"),
        pytest.param("abc\u202edef", True, id="a change of direction"),
        pytest.param("a\x7fb\u2028c", True, id="line ends that are none"),
    ],
)
def test_json_and_yaml_hold_the_same_text_without_harm(text: str, *, is_escaped: bool) -> None:
    shown = views.as_json({"text": text}), views.as_yaml([{"text": text}])
    assert (json.loads(shown[0]), yaml.safe_load(shown[1])) == ({"text": text}, {"text": text})
    for each in shown:
        assert (text not in each) is is_escaped
        assert each.replace("\n", "").isprintable()
