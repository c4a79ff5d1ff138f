"""A topology's lists are always live and hold each of its cards once; its mode settles."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from controller.cards import View
from controller.facts import (
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
    SourceFailure,
)
from controller.names import Reason
from controller.stopwatch import Stopwatch
from controller.topologies import Assessment
from controller.topologies import assess as assess_view

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
FAILURE = SourceFailure(Reason.CONNECTION_FAILED, "refused")


def card(name: str, phase: Phase, vram_gb: int = 16) -> GpuNode:
    status = GpuNodeStatus(
        observed_generation=1,
        phase=phase,
        health=Health.UNKNOWN,
        reason=Reason.CURRENT,
        message="",
        last_transition_time=START,
    )
    return GpuNode(name=name, uid=name, generation=1, spec=GpuNodeSpec(host=name, vram_gb=vram_gb), status=status)


def topology(status: RuntimeTopologyStatus | None = None) -> RuntimeTopology:
    return RuntimeTopology(name="cluster", uid="u", generation=1, spec=RuntimeTopologySpec(), status=status)


def watch(seconds: float = 0, old: Stopwatch | None = None) -> Stopwatch:
    return Stopwatch(old.marks if old else {}, Instant(START + timedelta(seconds=seconds), 100 + seconds))


def assess(
    topology: RuntimeTopology, cards: Sequence[GpuNode], failure: SourceFailure | None, clock: Stopwatch
) -> Assessment:
    return assess_view(topology, cards, View(failure or {}, Policy(profiles=()), clock))


def names(status: RuntimeTopologyStatus) -> list[list[str]]:
    lists = (status.active_gpus, status.inventory_gpus, status.unexpected_down, status.unknown_gpus)
    return [[entry.name for entry in entries] for entries in lists]


CARDS = st.dictionaries(st.text("abc", min_size=1), st.sampled_from(Phase)).map(
    lambda cards: [card(name, phase) for name, phase in cards.items()]
)


@given(CARDS)
def test_the_lists_partition_the_cards(cards: list[GpuNode]) -> None:
    status = assess(topology(), cards, None, watch()).status
    lists, counts = names(status), status.counts
    assert sorted(chain.from_iterable(lists)) == sorted(card.name for card in cards)
    assert [len(part) for part in lists] == [counts.active, counts.inventory, counts.unexpected_down, counts.unknown]
    assert (counts.total, status.active_vram_gb) == (len(cards), 16 * counts.active)


@given(CARDS.flatmap(lambda cards: st.tuples(st.just(cards), st.permutations(cards))))
def test_the_order_of_cards_does_not_matter(both: tuple[list[GpuNode], list[GpuNode]]) -> None:
    assert assess(topology(), both[0], None, watch()) == assess(topology(), both[1], None, watch())


@given(CARDS)
def test_a_second_look_at_the_same_moment_changes_nothing(cards: list[GpuNode]) -> None:
    clock = watch()
    first = assess(topology(), cards, None, clock)
    assert assess(topology(first.status), cards, None, watch(0, clock)) == first


def test_each_phase_has_its_list() -> None:
    phases = [Phase.UNKNOWN, Phase.UNEXPECTED_DOWN, Phase.EXPECTED_OFFLINE, Phase.ONLINE]
    status = assess(topology(), [card(phase, phase) for phase in phases], None, watch()).status
    assert names(status) == [["online"], ["expected_offline"], ["unexpected_down"], ["unknown"]]


def test_no_first_mode_without_a_believable_answer() -> None:
    status = assess(topology(), [card("a", Phase.ONLINE)], FAILURE, watch()).status
    assert (status.mode, status.degradation, status.last_transition_time, status.transitions) == (None, None, None, ())


def test_a_dead_card_leaves_the_list_at_once_and_the_mode_at_the_end_of_the_window() -> None:
    clock = watch()
    before = assess(topology(), [card("a", Phase.ONLINE), card("b", Phase.ONLINE)], None, clock).status
    cards = [card("a", Phase.ONLINE), card("b", Phase.UNEXPECTED_DOWN)]

    early = watch(10, clock)
    waiting = assess(topology(before), cards, None, early)
    assert names(waiting.status) == [["a"], [], ["b"], []]
    assert (waiting.status.mode, waiting.status.pending_mode) == (Mode.MULTI_GPU, Mode.DEGRADED_SINGLE_GPU)
    assert (waiting.status.hold_until, waiting.look_again) == (START + timedelta(seconds=30), 20)

    settled = assess(topology(waiting.status), cards, None, watch(30, early))
    assert (settled.status.mode, settled.status.pending_mode) == (Mode.DEGRADED_SINGLE_GPU, None)
    assert (settled.status.hold_until, settled.look_again) == (None, None)
    assert [(change.from_, change.to) for change in settled.status.transitions] == [
        (Mode.MULTI_GPU, Mode.DEGRADED_SINGLE_GPU),
        (None, Mode.MULTI_GPU),
    ]
