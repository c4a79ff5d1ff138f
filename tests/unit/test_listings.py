"""A topology of many cards stays small: its lists are cut, and what counts is of all cards."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controller import resources
from controller.cards import View
from controller.conditions import MESSAGE_LIMIT
from controller.facts import (
    Counts,
    GpuNode,
    GpuNodeSpec,
    GpuNodeStatus,
    Health,
    Instant,
    Mode,
    Phase,
    Policy,
    RuntimeTopology,
    RuntimeTopologySpec,
    RuntimeTopologyStatus,
    ServiceSpec,
    Survey,
    Target,
    TargetHealth,
    Transition,
)
from controller.listings import LIMITS, changed, listed
from controller.matching import at
from controller.names import Reason
from controller.stopwatch import Stopwatch
from controller.topologies import CAUSES, TRANSITIONS, assess

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIMIT_BYTES = 400_000
FLEET = 10_000


def card(name: str, phase: Phase, *, host: str = "h", model: str | None = None) -> GpuNode:
    status = GpuNodeStatus(
        observed_generation=1,
        phase=phase,
        health=Health.UNKNOWN,
        reason=Reason.CURRENT,
        message="",
        last_transition_time=START,
        gpu_temp_c=-12.34,
        gpu_load_pct=100.45,
        gpu_power_w=1234.56,
        gpu_fan_rpm=12345.67,
    )
    spec = GpuNodeSpec(host=host, vram_gb=16384, model=model)
    return GpuNode(name=name, uid=name, generation=1, spec=spec, status=status)


def fleet(model: str | None) -> list[GpuNode]:
    phases = list(Phase)
    return [card(f"{number:0253}", phases[number % 4], host="h" * 253, model=model) for number in range(FLEET)]


POLICY = Policy(profiles=())


def largest(model: str | None) -> RuntimeTopologyStatus:
    """Return the status of 10,000 cards in which everything is as long as it may be."""
    cards = fleet(model)
    specs = tuple(ServiceSpec(name=f"{n:063}", host="g" * 253, port=65535) for n in range(64))
    targets = tuple(Target("http://g", "g" * 253, 65535, {}, TargetHealth.DOWN, "e" * 999) for _ in range(1))
    topology = RuntimeTopology(name="t" * 253, uid="t", generation=1, spec=RuntimeTopologySpec(services=specs))
    services = at([("g" * 253, 65535)], Survey(targets, ()), POLICY)
    view = View({}, POLICY, Stopwatch({}, Instant(START, 0)), at_services=services)
    status = assess(topology, cards, view).status
    (change,) = status.transitions
    assert len(change.cards) == CAUSES
    longest = tuple(replace(one, message="m" * MESSAGE_LIMIT) for one in status.conditions)
    past = Transition(from_=Mode.DEGRADED_SINGLE_GPU, to=Mode.DEGRADED_SINGLE_GPU, level=1, at=START,
                      reason=Reason.SEVERAL_CARDS_ONLINE, cards=change.cards)  # fmt: skip
    return replace(
        status, conditions=longest, transitions=(past,) * TRANSITIONS, pending_cards=change.cards,
        pending_mode=Mode.DEGRADED_SINGLE_GPU, hold_until=START,
    )  # fmt: skip


@pytest.mark.parametrize("model", [None, "m" * 128])
def test_the_status_of_ten_thousand_cards_with_the_longest_names_stays_under_400_kb(model: str | None) -> None:
    status = largest(model)
    assert status.counts == Counts(total=FLEET, active=2500, inventory=2500, unexpected_down=2500, unknown=2500)
    assert (status.truncated, status.active_vram_gb, status.mode) == (True, 2500 * 16384, Mode.MULTI_GPU)
    assert len(json.dumps(resources.dump_status(status), separators=(",", ":"))) < LIMIT_BYTES


def test_lists_are_cut_by_name_and_only_where_they_must_be() -> None:
    active = LIMITS[Phase.ONLINE]
    names = [f"{number:04}" for number in range(active + 1)]
    whole, cut = (listed([card(name, Phase.ONLINE) for name in reversed(part)]) for part in (names[:-1], names))
    assert [len(whole["active_gpus"]), whole["truncated"]] == [active, False]
    assert [entry.name for entry in cut["active_gpus"]] == names[:-1]
    assert (cut["truncated"], cut["counts"].active) == (True, active + 1)


def status_of(cards: list[GpuNode]) -> RuntimeTopologyStatus:
    return RuntimeTopologyStatus(observed_generation=1, **listed(cards))


def test_what_came_went_or_changed_is_known_by_name() -> None:
    before = status_of([card("a", Phase.ONLINE), card("b", Phase.ONLINE), card("c", Phase.ONLINE)])
    assert changed(before, [card("b", Phase.ONLINE), card("c", Phase.UNKNOWN), card("d", Phase.ONLINE)]) == {
        "a",
        "c",
        "d",
    }


def test_a_card_that_moves_up_into_a_cut_list_has_not_changed() -> None:
    names = [f"{number:04}" for number in range(LIMITS[Phase.ONLINE] + 2)]
    online = [card(name, Phase.ONLINE) for name in names]
    before = status_of(online)
    assert changed(before, [card("0000", Phase.UNEXPECTED_DOWN), *online[1:]]) == {"0000"}
    assert changed(before, [*online[:-1], card(names[-1], Phase.UNEXPECTED_DOWN)]) == {names[-1]}
