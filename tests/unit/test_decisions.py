"""Whole passes over a fleet: what holds in any history, and scenarios that show each rule at work."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import cards, conditions, modes, topologies
from controller.decisions import decide
from controller.facts import (
    HOST_LABELS,
    ConditionStatus,
    Decision,
    Event,
    GpuEntry,
    Mode,
    Phase,
    RuntimeTopologyStatus,
    Survey,
    World,
)
from controller.names import DEFAULT_TOPOLOGY, Condition, EventReason, Reason
from controller.topologies import STALLED_SECONDS
from tests.unit.simulation import START, Pass, Sight, Simulation

Step = Callable[[Simulation], None]
History = Sequence[tuple[Step, float]]

EXAMPLES = 50
"""For each property: as many as keep the whole file at some ten seconds."""
NAMES = st.sampled_from("abc")


def step(method: Callable[..., None], **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(partial, st.just(method), **arguments)


SIGHTS = step(Simulation.show, name=NAMES, sight=st.sampled_from(Sight))
EDITS = (
    step(Simulation.declare, name=NAMES, expectedOffline=st.booleans())
    | step(Simulation.declare, name=NAMES, vramGb=st.just("16"))
    | step(Simulation.delete, name=NAMES)
)
TOPOLOGY_EDITS = step(Simulation.declare_topology, window=st.sampled_from([0, 5, 30])) | step(
    Simulation.delete_topology
)
OUTAGES = step(Simulation.fail, reason=st.sampled_from([Reason.CONNECTION_FAILED, Reason.TIMED_OUT])) | step(
    Simulation.recover
)
LEAPS = st.sampled_from([-3600, -30, -5, -1, 0.5, 1, 5, 30, 3600])
JUMPS = step(Simulation.jump, seconds=LEAPS)
REFUSALS = step(Simulation.refuse, names=st.sets(NAMES | st.just(DEFAULT_TOPOLOGY)))
RESTARTS = step(Simulation.restart)
SECONDS = st.sampled_from([0, 0.25, 1, 4.75, 5, 25, 29.75, 30, 59, 60, 120])


def histories(*steps: st.SearchStrategy[Step]) -> st.SearchStrategy[History]:
    return st.lists(st.tuples(st.one_of(SIGHTS, SIGHTS, EDITS, *steps), SECONDS), max_size=15)


def fleet(**sights: Sight) -> Simulation:
    """Return a topology and its cards, not looked at yet."""
    simulation = Simulation()
    simulation.declare_topology()
    for name, sight in sights.items():
        simulation.declare(name)
        simulation.show(name, sight)
    return simulation


def live(simulation: Simulation, history: History) -> Simulation:
    simulation.run()
    for happen, seconds in history:
        happen(simulation)
        simulation.run(seconds)
    return simulation


def silent(decision: Decision) -> bool:
    return not (decision.nodes or decision.topologies or decision.create_default)


def published(moment: Pass) -> RuntimeTopologyStatus | None:
    """Return what the topology says once the pass is done."""
    changed = {change.topology.name: change.status for change in moment.decision.topologies}
    stored = {topology.name: topology.status for topology in moment.world.topologies}
    return changed.get(DEFAULT_TOPOLOGY) or stored.get(DEFAULT_TOPOLOGY)


def phases(moment: Pass) -> dict[str, Phase]:
    """Return how the cards are judged once the pass is done."""
    changed = {change.node.name: change.status for change in moment.decision.nodes}
    statuses = {node.name: changed.get(node.name) or node.status for node in moment.world.nodes}
    return {name: status.phase for name, status in statuses.items() if status}


def truths(status: RuntimeTopologyStatus) -> dict[Condition, ConditionStatus]:
    return {condition.type: condition.status for condition in status.conditions}


def lists(status: RuntimeTopologyStatus) -> list[list[str]]:
    """Return the names in the four lists: active, inventory, unexpectedly down, unknown."""
    entries = (status.active_gpus, status.inventory_gpus, status.unexpected_down, status.unknown_gpus)
    return [[entry.name for entry in part] for part in entries]


def told(simulation: Simulation) -> list[tuple[float, str, Event]]:
    """Return all events: when, on what, and what was said."""
    return [
        (moment.time, name, event)
        for moment in simulation.passes
        for name, event in (
            *((change.node.name, change.event) for change in moment.decision.nodes),
            *((change.topology.name, change.event) for change in moment.decision.topologies),
        )
        if event
    ]


def written(simulation: Simulation, name: str) -> list[float]:
    """Return when an object's status was written."""
    return [
        moment.time
        for moment in simulation.passes
        if name in {change.node.name for change in moment.decision.nodes}
        or name in {change.topology.name for change in moment.decision.topologies}
    ]


def timeless(value: object) -> object:
    """Return JSON data without stamps, and without the one message that quotes a stamp."""
    if isinstance(value, list):
        return [timeless(item) for item in value]
    if not isinstance(value, dict):
        return value
    stamped = {"lastTransitionTime", "holdUntil", "at", "observedAt"} | (
        {"message"} if value.get("type") == "Reconciling" else set()
    )
    return {key: timeless(item) for key, item in value.items() if key not in stamped}


def statuses(simulation: Simulation) -> object:
    shelves = (simulation.nodes, simulation.topologies)
    return timeless([{name: item.get("status") for name, item in shelf.items()} for shelf in shelves])


# ---- in any history


@given(histories(TOPOLOGY_EDITS, OUTAGES, JUMPS, RESTARTS))
@settings(max_examples=EXAMPLES)
def test_every_status_is_consistent(history: History) -> None:
    for moment in live(fleet(a=Sight.UP, b=Sight.UP), history).passes:
        if status := published(moment):
            parts = (status.active_gpus, status.inventory_gpus, status.unexpected_down, status.unknown_gpus)
            kinds = (Phase.ONLINE, Phase.EXPECTED_OFFLINE, Phase.UNEXPECTED_DOWN, Phase.UNKNOWN)
            assert [(entry.name, kind) for part, kind in zip(parts, kinds, strict=True) for entry in part] == sorted(
                phases(moment).items(), key=lambda judged: (kinds.index(judged[1]), judged[0])
            )
            assert all(entry.status is kind for part, kind in zip(parts, kinds, strict=True) for entry in part)
            assert [len(part) for part in parts] == [
                status.counts.active,
                status.counts.inventory,
                status.counts.unexpected_down,
                status.counts.unknown,
            ]
            assert status.counts.total == len(moment.world.nodes)
            assert status.degradation == (modes.DEGRADATIONS[status.mode] if status.mode else None)
            pending = status.pending_mode is not None
            assert (status.hold_until is not None) == pending
            assert bool(status.pending_cards) <= pending
            waits = pending or status.mode is None
            stalled = truths(status)[Condition.STALLED] is ConditionStatus.TRUE
            assert (truths(status)[Condition.RECONCILING] is ConditionStatus.TRUE) == (waits and not stalled)
            chain = [status.mode, *(change.from_ for change in status.transitions)]
            assert [change.to for change in status.transitions] == chain[:-1]
            assert chain[-1] is None or len(status.transitions) == topologies.TRANSITIONS
            assert set(truths(status)) == {
                Condition.READY,
                Condition.DEGRADED,
                Condition.SOURCE_AVAILABLE,
                Condition.SERVICES_HEALTHY,
                Condition.RECONCILING,
                Condition.STALLED,
            }


@given(histories(TOPOLOGY_EDITS, OUTAGES, JUMPS))
@settings(max_examples=EXAMPLES)
def test_the_mode_changes_at_the_end_of_the_window_from_the_facts_of_that_moment(history: History) -> None:
    mode, uid, changed = None, "", 0.0
    for moment in live(fleet(a=Sight.UP, b=Sight.UP), history).passes:
        for topology in moment.world.topologies:
            if topology.uid != uid:
                mode, uid = None, topology.uid
            status, candidate = published(moment), modes.compute_mode(phases(moment).values())
            left = changed + topology.spec.stabilization_seconds - moment.time
            waiting = mode is not None and candidate is not mode and left > 0
            assert status
            believed = truths(status)[Condition.SOURCE_AVAILABLE] is ConditionStatus.TRUE
            if not waiting and candidate is not mode and (mode or believed):
                mode, changed = candidate, moment.time
            assert (status.mode, status.pending_mode) == (mode, candidate if waiting else None)
            if waiting:
                assert moment.decision.look_again is not None
                assert moment.decision.look_again <= left


@given(histories(TOPOLOGY_EDITS, OUTAGES, JUMPS, RESTARTS, REFUSALS))
@settings(max_examples=EXAMPLES)
def test_no_history_changes_the_mode_twice_within_the_window(history: History) -> None:
    """A restart must believe the wall clock: only a jump forward before it can cut a window short, by that much."""
    simulation = fleet(a=Sight.UP, b=Sight.UP)
    simulation.run()
    changed, ahead = 0.0, 0.0
    for happen, seconds in history:
        jumped, before = simulation.jumped, len(simulation.passes)
        happen(simulation)
        ahead += max(simulation.jumped - jumped, 0)
        simulation.run(seconds)
        for moment in simulation.passes[before:]:
            for change in moment.decision.topologies:
                last = change.topology.status
                if last and last.mode and change.status.mode is not last.mode:
                    assert moment.time - changed >= change.topology.spec.stabilization_seconds - ahead
                if not last or change.status.mode is not last.mode:
                    changed, ahead = moment.time, 0.0


@given(histories(TOPOLOGY_EDITS, OUTAGES, JUMPS, RESTARTS))
@settings(max_examples=EXAMPLES)
def test_a_second_pass_at_the_same_moment_writes_and_posts_nothing(history: History) -> None:
    simulation = live(fleet(a=Sight.UP, b=Sight.UP), history)
    if simulation.passes[-1].decision.create_default:
        simulation.pass_()
    assert silent(simulation.pass_())


@given(histories(TOPOLOGY_EDITS, OUTAGES))
@settings(max_examples=EXAMPLES)
def test_a_restart_alone_changes_nothing_but_readings(history: History) -> None:
    simulation = live(fleet(a=Sight.UP, b=Sight.UP), history)
    if simulation.passes[-1].decision.create_default:
        simulation.pass_()
    simulation.restart()
    events = len(told(simulation))
    decision = simulation.pass_()
    assert len(told(simulation)) == events
    for node in decision.nodes:
        assert node.node.status
        assert cards.quiet(node.node.status, node.status) == node.node.status
    for topology in decision.topologies:
        assert topology.topology.status
        assert topologies.quiet(topology.topology.status, topology.status) == topology.topology.status


@given(
    st.lists(
        st.tuples(
            st.one_of(SIGHTS, SIGHTS, EDITS, OUTAGES),
            st.sampled_from([100, 200, 300]),
            st.sampled_from([None, 0, 0.5, 1, 3, 19.5, 20.5, 59.5, 60.5, 70]),
        ),
        max_size=8,
    )
)
@settings(max_examples=EXAMPLES)
def test_a_restart_at_any_point_changes_no_outcome(history: Sequence[tuple[Step, float, float | None]]) -> None:
    """A restart lengthens a duration by a second at most, so facts hold still where a duration may end.

    They change each 100 s; the window of 101 s and the time of grace of 60 s end between, however many follow each
    other.
    """
    steady, restarted = fleet(a=Sight.UP, b=Sight.UP), fleet(a=Sight.UP, b=Sight.UP)
    for simulation in (steady, restarted):
        simulation.declare_topology(window=101)
        simulation.run(100)
    for happen, seconds, restart in history:
        for simulation in (steady, restarted):
            happen(simulation)
            simulation.run(restart or 0)
            if restart is not None and simulation is restarted:
                simulation.restart()
            simulation.run(seconds - (restart or 0))
        assert statuses(restarted) == statuses(steady)
    assert [what for _, *what in told(restarted)] == [what for _, *what in told(steady)]
    assert all(abs(one[0] - other[0]) <= len(history) for one, other in zip(told(restarted), told(steady), strict=True))


@given(st.lists(st.tuples(st.one_of(SIGHTS, SIGHTS, EDITS, TOPOLOGY_EDITS, OUTAGES), SECONDS, LEAPS), max_size=15))
@settings(max_examples=EXAMPLES)
def test_jumps_of_the_wall_clock_change_no_outcome(history: Sequence[tuple[Step, float, float]]) -> None:
    steady, jumping = fleet(a=Sight.UP, b=Sight.UP), fleet(a=Sight.UP, b=Sight.UP)
    steady.run()
    jumping.run()
    for happen, seconds, leap in history:
        jumping.jump(leap)
        for simulation in (steady, jumping):
            happen(simulation)
            simulation.run(seconds)
    assert statuses(jumping) == statuses(steady)
    assert told(jumping) == told(steady)


@given(histories(TOPOLOGY_EDITS, JUMPS), st.lists(st.tuples(SIGHTS | JUMPS, SECONDS), max_size=5))
@settings(max_examples=EXAMPLES)
def test_in_an_outage_only_a_pending_mode_and_what_is_said_of_the_source_change(
    history: History, outage: History
) -> None:
    simulation = live(fleet(a=Sight.UP, b=Sight.UP), history)
    simulation.run()
    simulation.run()
    judged, before = {name: simulation.card(name) for name in simulation.nodes}, simulation.topology()
    simulation.fail()
    begun = simulation.time
    live(simulation, outage)
    after = simulation.topology()
    assert {name: simulation.card(name) for name in simulation.nodes} == judged
    about_source = (Condition.READY, Condition.SOURCE_AVAILABLE, Condition.STALLED)
    assert [truths(after)[kind] for kind in about_source] == [
        ConditionStatus.UNKNOWN,
        ConditionStatus.FALSE,
        conditions.truth(simulation.time - begun >= STALLED_SECONDS),
    ]
    fields = "mode degradation last_transition_time pending_mode hold_until pending_cards transitions"
    changes_of_mode = fields.split()
    unchanged = {field: getattr(before, field) for field in changes_of_mode}
    if before.pending_mode:
        assert after.mode in {before.mode, before.pending_mode}
    else:
        assert {field: getattr(after, field) for field in changes_of_mode} == unchanged
    assert topologies.quiet(before, replace(after, conditions=before.conditions, **unchanged)) == before


@given(histories(TOPOLOGY_EDITS, OUTAGES), st.data())
@settings(max_examples=EXAMPLES)
def test_the_order_of_cards_targets_and_series_does_not_matter(history: History, data: st.DataObject) -> None:
    simulation = live(fleet(a=Sight.UP, b=Sight.UP, c=Sight.DOWN), history)
    moment = simulation.passes[-1]
    nodes, topologies_, seen = moment.world.nodes, moment.world.topologies, moment.world.observation
    nodes = tuple(data.draw(st.permutations(nodes)))
    if isinstance(seen, Survey):
        targets, samples = data.draw(st.permutations(seen.targets)), data.draw(st.permutations(seen.samples))
        seen = Survey(tuple(targets), tuple(samples))
    decision = decide(World(nodes, topologies_, seen), moment.memory, moment.now, simulation.policy)
    ordered = tuple(sorted(decision.nodes, key=lambda change: change.node.name))
    assert replace(decision, nodes=ordered) == moment.decision


# ---- scenarios

FLEETS = {
    Mode.MULTI_GPU: {"a": Sight.UP, "b": Sight.UP},
    Mode.SINGLE_GPU: {"a": Sight.UP},
    Mode.DEGRADED_SINGLE_GPU: {"a": Sight.UP, "b": Sight.DOWN},
    Mode.INVENTORY_ONLY: {"a": Sight.DOWN},
}


def rearrange(simulation: Simulation, sights: Mapping[str, Sight]) -> None:
    """Let there be just these cards, seen that way."""
    for name in simulation.nodes.keys() - sights.keys():
        simulation.delete(name)
    for name, sight in sights.items():
        simulation.declare(name)
        simulation.show(name, sight)


@pytest.mark.parametrize("mode", [pytest.param(mode, id=f"start to {mode}") for mode in Mode])
def test_a_new_topology_starts_at_once_in_the_mode_of_its_cards(mode: Mode) -> None:
    simulation = fleet(**FLEETS[mode])
    simulation.run()
    status = simulation.topology()
    assert (status.mode, status.degradation, status.pending_mode) == (mode, modes.DEGRADATIONS[mode], None)
    assert [(change.from_, change.to, change.at) for change in status.transitions] == [(None, mode, START)]


@pytest.mark.parametrize(
    ("before", "after"), [pytest.param(*edge, id=f"{edge[0]} to {edge[1]}") for edge in permutations(Mode, 2)]
)
def test_each_mode_follows_each_other_at_the_end_of_the_window(before: Mode, after: Mode) -> None:
    simulation = fleet(**FLEETS[before])
    simulation.run(5)
    rearrange(simulation, FLEETS[after])
    simulation.run()
    waiting, end = simulation.topology(), START + timedelta(seconds=30)
    assert (waiting.mode, waiting.pending_mode, waiting.hold_until) == (before, after, end)
    assert simulation.passes[-1].decision.look_again == 25
    simulation.run(25)
    settled = simulation.topology()
    assert (settled.mode, settled.degradation) == (after, modes.DEGRADATIONS[after])
    assert (settled.pending_mode, settled.hold_until, settled.last_transition_time) == (None, None, end)
    assert [(change.from_, change.to) for change in settled.transitions] == [(before, after), (None, before)]


def test_a_change_that_is_over_within_the_window_never_shows_in_the_mode() -> None:
    simulation = fleet(a=Sight.UP, b=Sight.UP)
    for sight in (Sight.UP, Sight.DOWN, Sight.UP):
        simulation.show("b", sight)
        simulation.run(10)
    simulation.run(60)
    assert (simulation.topology().mode, len(simulation.topology().transitions)) == (Mode.MULTI_GPU, 1)


def test_without_prometheus_no_mode_and_with_its_first_answer_one() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.fail()
    simulation.run(60)
    assert (simulation.topology().mode, lists(simulation.topology())) == (None, [[], [], [], ["a"]])
    simulation.recover()
    simulation.run()
    assert (simulation.topology().mode, lists(simulation.topology())) == (Mode.SINGLE_GPU, [["a"], [], [], []])


def test_the_first_judgement_posts_nothing_and_the_first_mode_one_event() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run(60)
    started = "Mode started as single_gpu, degradation NORMAL 0: 1 of 1 cards online"
    assert told(simulation) == [(0, "cluster", Event(EventReason.MODE_CHANGED, started, warning=False))]


def test_each_change_of_a_phase_and_of_the_mode_posts_one_event_that_warns_of_worse() -> None:
    simulation = fleet(a=Sight.UP, b=Sight.UP)
    for sight in (Sight.UP, Sight.DOWN, Sight.UP, Sight.ABSENT):
        simulation.show("b", sight)
        simulation.run(100)
    phase, mode = EventReason.PHASE_CHANGED, EventReason.MODE_CHANGED
    down = "The target is down: http://b:9182/metrics: refused"
    missing = (
        "No scrape target of Prometheus is on host b and on a port of this card: no target on port 9182 or 9183 has b "
        f"as host in its scrape URL, __address__, instance or a label of {', '.join(HOST_LABELS)}"
    )
    assert told(simulation) == [
        (0, "cluster", Event(mode, "Mode started as multi_gpu, degradation NORMAL 0: 2 of 2 cards online",
                             warning=False)),
        (100, "b", Event(phase, f"Phase changed from online to unexpected_down (TargetDown): {down}", warning=True)),
        (100, "cluster", Event(mode, "Mode changed from multi_gpu to degraded_single_gpu, degradation LIGHT 1: "
                                     "1 of 2 cards online; unexpected_down: b", warning=True)),
        (200, "b", Event(phase, "Phase changed from unexpected_down to online (TargetsUp): The target is up",
                         warning=False)),
        (200, "cluster", Event(mode, "Mode changed from degraded_single_gpu to multi_gpu, degradation NORMAL 0: "
                                     "2 of 2 cards online", warning=False)),
        (360, "b", Event(phase, f"Phase changed from online to unknown (TargetMissing): {missing}; "
                                "add it to Prometheus or correct spec.host", warning=True)),
        (360, "cluster", Event(mode, "Mode changed from multi_gpu to single_gpu, degradation NORMAL 0: "
                                     "1 of 2 cards online; unknown: b", warning=False)),
    ]  # fmt: skip


def test_a_planned_absence_is_no_warning_on_the_card() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.declare("a", expectedOffline=True)
    simulation.run(60)
    simulation.show("a", Sight.DOWN)
    simulation.run()
    assert [(name, event.warning) for _, name, event in told(simulation)[1:]] == [("a", False), ("cluster", True)]


def poll(simulation: Simulation, seconds: Sequence[int], each: Callable[[int], None]) -> None:
    """Pass at these seconds, each time after something has happened."""
    for now in seconds:
        simulation.time = now
        each(now)
        simulation.pass_()


def test_readings_are_written_once_in_thirty_seconds_where_they_move() -> None:
    simulation = fleet(a=Sight.UP)
    poll(simulation, range(0, 91, 5), lambda now: simulation.temperatures.update(a=40 + now))
    assert (written(simulation, "a"), written(simulation, "cluster")) == ([0, 30, 60, 90], [0, 30, 60, 90])
    assert [simulation.card("a").gpu_temp_c, simulation.topology().active_gpus[0].gpu_temp_c] == [130, 130]


def test_readings_within_their_deadband_are_never_written() -> None:
    simulation = fleet(a=Sight.UP)
    poll(simulation, range(0, 91, 5), lambda now: simulation.temperatures.update(a=40 + now % 2))
    assert (written(simulation, "a"), written(simulation, "cluster")) == ([0], [0, 60]), "60 is the lease"


def test_an_error_that_reads_otherwise_at_each_scrape_is_written_once_in_thirty_seconds() -> None:
    simulation = fleet(a=Sight.DOWN)
    poll(simulation, range(0, 91, 5), lambda now: simulation.errors.update(a=f"refused at {now}"))
    assert (written(simulation, "a"), written(simulation, "cluster")) == ([0, 30, 60, 90], [0, 60])
    assert (simulation.card("a").targets[0].last_error, simulation.card("a").message) == (
        "refused at 90",
        "The target is down: http://a:9182/metrics: refused at 90",
    )


def test_a_failure_of_the_source_that_reads_otherwise_at_each_request_is_written_once_in_thirty_seconds() -> None:
    simulation = fleet(a=Sight.UP)
    poll(simulation, range(0, 91, 5), lambda now: simulation.fail(message=f"refused at {now}"))
    assert (written(simulation, "a"), written(simulation, "cluster")) == ([0], [0, 30, 60, 90])


def test_a_change_of_substance_is_written_at_once_with_the_readings_of_the_moment() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run(5)
    simulation.declare("a", model="RX9070")
    simulation.temperatures["a"] = 90
    simulation.run()
    assert (written(simulation, "a"), written(simulation, "cluster")) == ([0, 5], [0, 5])
    assert (simulation.card("a").observed_generation, simulation.card("a").gpu_temp_c) == (2, 90)
    assert simulation.topology().active_gpus[0].model == "RX9070"


def test_missing_series_of_an_online_card_count_from_the_second_on() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run(5)
    simulation.show("a", Sight.BARE)
    looks = []
    for seconds in (0, 0, 0.25, 0.75):
        simulation.time += seconds
        looks.append((simulation.pass_().look_again, simulation.card("a").phase))
    online = Phase.ONLINE
    assert looks == [(1, online), (1, online), (0.75, online), (24, Phase.UNEXPECTED_DOWN)]


def test_an_online_card_whose_target_is_gone_is_unknown_after_exactly_its_time_of_grace() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run(5)
    simulation.show("a", Sight.ABSENT)
    simulation.run(59.75)
    assert (simulation.card("a").phase, simulation.passes[-1].decision.look_again) == (Phase.ONLINE, 0.25)
    simulation.run(0.25)
    assert (simulation.card("a").phase, simulation.card("a").last_transition_time) == (
        Phase.UNKNOWN,
        START + timedelta(seconds=65),
    )


def test_a_card_that_cannot_be_read_says_so_itself_and_harms_no_other() -> None:
    simulation = fleet(a=Sight.UP, b=Sight.UP)
    simulation.declare("b", vramGb="16")
    simulation.run()
    status, broken = simulation.topology(), simulation.card("b")
    assert (broken.phase, broken.reason, broken.message) == (
        Phase.UNKNOWN,
        Reason.INVALID_SPEC,
        "spec.vramGb: Input should be a valid integer; edit this GpuNode",
    )
    assert (status.mode, lists(status), status.active_vram_gb) == (Mode.SINGLE_GPU, [["a"], [], [], ["b"]], 16)
    assert status.unknown_gpus == (GpuEntry(name="b", model="b", status=Phase.UNKNOWN, expected_offline=False),)


def test_a_status_that_is_not_taken_is_decided_afresh_and_told_once_it_is() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run(30)
    simulation.show("a", Sight.DOWN)
    simulation.refuse({"a", "cluster"})
    simulation.run(10)
    assert (simulation.card("a").phase, simulation.topology().mode) == (Phase.ONLINE, Mode.SINGLE_GPU)
    simulation.refuse(set())
    simulation.run(10)
    assert (simulation.card("a").phase, simulation.topology().mode) == (Phase.UNEXPECTED_DOWN, Mode.INVENTORY_ONLY)
    assert [(time, name) for time, name, _ in told(simulation)] == [(0, "cluster"), (40, "a"), (40, "cluster")]


def test_the_default_topology_is_created_only_where_none_exists() -> None:
    simulation = Simulation()
    created = [simulation.pass_().create_default for _ in range(2)]
    simulation.delete_topology()
    simulation.declare_topology("other")
    assert [*created, simulation.pass_().create_default] == [True, False, False]


def test_each_topology_settles_by_its_own_window() -> None:
    simulation = fleet(a=Sight.UP, b=Sight.UP)
    simulation.declare_topology("swift", window=0)
    simulation.run(10)
    simulation.show("b", Sight.DOWN)
    simulation.run(5)
    modes_then = [simulation.topology().mode, simulation.topology("swift").mode]
    simulation.run(15)
    assert modes_then == [Mode.MULTI_GPU, Mode.DEGRADED_SINGLE_GPU]
    assert simulation.topology().mode is Mode.DEGRADED_SINGLE_GPU


def test_a_topology_has_the_cards_that_its_selector_picks_and_a_card_may_have_several_topologies() -> None:
    simulation = fleet(a=Sight.UP, b=Sight.UP, c=Sight.UP)
    simulation.topologies.clear()
    for name, tiers in (("big", ["big"]), ("both", ["big", "small"])):
        expression = {"key": "tier", "operator": "In", "values": tiers}
        simulation.declare_topology(name, selector={"matchExpressions": [expression]})
    simulation.nodes["a"]["metadata"]["labels"] = {"tier": "big"}
    simulation.nodes["b"]["metadata"]["labels"] = {"tier": "small"}
    simulation.run()
    assert lists(simulation.topology("big")) == [["a"], [], [], []]
    assert lists(simulation.topology("both")) == [["a", "b"], [], [], []]


def test_the_lease_is_renewed_each_minute_by_a_write_that_changes_nothing_else() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run()
    first = simulation.topology()
    simulation.run(59.75)
    assert written(simulation, "cluster") == [0]
    simulation.run(120)
    assert (written(simulation, "a"), written(simulation, "cluster")) == ([0], [0, 60, 120])
    assert simulation.topology() == replace(first, observed_at=START + timedelta(seconds=120))
    assert [event.reason for _, _, event in told(simulation)] == [EventReason.MODE_CHANGED]


def test_each_other_write_renews_the_lease_as_well() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run(50)
    simulation.show("a", Sight.DOWN)
    simulation.run(59.75)
    assert written(simulation, "cluster") == [0, 50]
    simulation.run(0.25)
    assert written(simulation, "cluster") == [0, 50, 110]


@pytest.mark.parametrize("leap", [-3600, -1, 3600])
def test_a_jump_of_the_wall_clock_neither_hastens_nor_delays_the_lease(leap: float) -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run(30)
    simulation.jump(leap)
    simulation.run(60)
    assert written(simulation, "cluster") == [0, 60]


def test_a_renewed_lease_has_a_later_stamp_also_where_the_wall_clock_went_back() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run(30)
    simulation.jump(-600)
    simulation.run(60)
    assert simulation.topology().observed_at == START + timedelta(seconds=1), "one later than the last, which was START"
    simulation.run(60)
    assert simulation.topology().observed_at == START + timedelta(seconds=2)


def test_the_lease_is_renewed_while_prometheus_is_away_and_where_the_spec_cannot_be_read() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run()
    simulation.fail()
    simulation.declare_topology(services="none")
    simulation.run(130)
    assert simulation.topology().observed_at == START + timedelta(seconds=120)


def test_a_spec_that_cannot_be_read_leaves_mode_and_lists_as_they_are_and_is_said() -> None:
    simulation = fleet(a=Sight.UP, b=Sight.UP)
    simulation.run(40)
    before = simulation.topology()
    simulation.declare_topology(selector={"matchLabels": {"tier": 1}})
    simulation.show("a", Sight.DOWN)
    simulation.run(40)
    after = simulation.topology()
    assert (after.mode, lists(after), after.observed_generation) == (before.mode, lists(before), 2)
    ready, stalled = (conditions.find(after.conditions, kind) for kind in (Condition.READY, Condition.STALLED))
    assert ready
    assert stalled
    assert (ready.status, ready.reason, stalled.status) == (ConditionStatus.FALSE, "InvalidSpec", ConditionStatus.TRUE)
    assert ready.message == "spec.selector.matchLabels.tier: Input should be a valid string; edit this RuntimeTopology"


def test_services_stand_beside_the_cards_and_change_no_mode() -> None:
    simulation = fleet(a=Sight.UP)
    gateway = {"name": "Gateway", "host": "g", "port": 9182}
    simulation.declare_topology(services=[gateway])
    simulation.run()
    seen = []
    for sight in (Sight.UP, Sight.DOWN, Sight.WAITING, Sight.ABSENT):
        simulation.show("g", sight)
        simulation.run(5)
        status = simulation.topology()
        seen.append((*(one.health for one in status.services), truths(status)[Condition.SERVICES_HEALTHY]))
        assert status.mode is Mode.SINGLE_GPU
    assert seen == [
        ("online", "True"),
        ("offline", "False"),
        ("offline", "False"),
        ("unknown", "Unknown"),
    ]
    assert written(simulation, "cluster") == [0, 0, 5, 15]


def test_an_error_of_a_service_that_reads_otherwise_at_each_scrape_is_written_once_in_thirty_seconds() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.declare_topology(services=[{"name": "Gateway", "host": "g", "port": 9182}])
    simulation.show("g", Sight.DOWN)
    poll(simulation, range(0, 61, 5), lambda now: simulation.errors.update(g=f"refused at {now}"))
    assert written(simulation, "cluster") == [0, 30, 60]
    assert [service.message for service in simulation.topology().services] == ["refused at 60"]


def test_services_stay_as_they_are_in_an_outage() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.declare_topology(services=[{"name": "Gateway", "host": "g", "port": 9182}])
    simulation.show("g", Sight.UP)
    simulation.run()
    before = simulation.topology().services
    simulation.show("g", Sight.DOWN)
    simulation.fail()
    simulation.run(30)
    assert simulation.topology().services == before


def test_a_change_of_the_mode_names_the_cards_that_made_it_wait_also_those_that_are_deleted() -> None:
    simulation = fleet(a=Sight.UP, b=Sight.UP, c=Sight.UP)
    simulation.run(40)
    simulation.show("a", Sight.DOWN)
    simulation.run(5)
    simulation.show("b", Sight.DOWN)
    simulation.run()
    simulation.show("c", Sight.DOWN)
    simulation.run(10)
    assert simulation.topology().pending_cards == ("c",)
    simulation.delete("c")
    simulation.restart()
    simulation.run(30)
    assert [(change.to, change.level, change.cards) for change in simulation.topology().transitions] == [
        (Mode.INVENTORY_ONLY, 2, ("c",)),
        (Mode.DEGRADED_SINGLE_GPU, 1, ("b",)),
        (Mode.MULTI_GPU, 0, ("a", "b", "c")),
    ]


def test_the_history_has_no_gap_and_no_double_and_ends_with_the_twentieth() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.declare_topology(window=0)
    simulation.run()
    for _ in range(15):
        for sight in (Sight.DOWN, Sight.UP):
            simulation.show("a", sight)
            simulation.run(5)
            simulation.restart()
    history = simulation.topology().transitions
    assert len(history) == topologies.TRANSITIONS
    assert [change.to for change in history] == [Mode.SINGLE_GPU, Mode.INVENTORY_ONLY] * 10
    assert [change.from_ for change in history] == [Mode.INVENTORY_ONLY, Mode.SINGLE_GPU] * 10


def test_a_topology_that_is_created_again_starts_anew() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run(5)
    simulation.show("a", Sight.DOWN)
    simulation.delete_topology()
    simulation.run()
    simulation.run()
    assert [(change.from_, change.to) for change in simulation.topology().transitions] == [(None, Mode.INVENTORY_ONLY)]


def test_a_mode_that_changes_in_a_second_that_the_wall_clock_has_shown_before_has_a_window_of_its_own() -> None:
    simulation = fleet(a=Sight.UP, b=Sight.UP)
    simulation.run()
    simulation.show("b", Sight.DOWN)
    simulation.run(20)
    simulation.jump(-30)
    simulation.run(10)
    assert [change.at for change in simulation.topology().transitions] == [START, START]
    simulation.show("b", Sight.UP)
    simulation.run(29.75)
    assert simulation.topology().mode is Mode.DEGRADED_SINGLE_GPU
    simulation.run(0.25)
    assert simulation.topology().mode is Mode.MULTI_GPU


def test_a_target_that_disappears_in_a_second_that_the_wall_clock_has_shown_before_has_its_full_time_of_grace() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run()
    simulation.show("a", Sight.ABSENT)
    simulation.run(40)
    simulation.show("a", Sight.UP)
    simulation.run()
    simulation.jump(-40)
    simulation.show("a", Sight.ABSENT)
    simulation.run(59.75)
    assert simulation.card("a").phase is Phase.ONLINE
    simulation.run(0.25)
    assert simulation.card("a").phase is Phase.UNKNOWN


def test_a_declaration_edited_in_an_outage_takes_nothing_from_the_next_time_of_grace() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run()
    simulation.show("a", Sight.ABSENT)
    simulation.run(10)
    simulation.fail()
    simulation.declare("a", model="RX9070")
    simulation.run(10)
    simulation.recover()
    simulation.show("a", Sight.WAITING)
    simulation.run(10)
    simulation.show("a", Sight.ABSENT)
    simulation.run(59.75)
    assert simulation.card("a").phase is Phase.ONLINE
    simulation.run(0.25)
    assert simulation.card("a").phase is Phase.UNKNOWN


def test_an_outage_counts_as_stalled_after_two_minutes_and_until_it_ends() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.fail()
    stalled = []
    for seconds, happen in (
        (119.75, None),
        (0.25, None),
        (0, simulation.restart),
        (0, partial(simulation.jump, -3600)),
        (0, simulation.restart),
        (0, simulation.recover),
    ):
        if happen:
            happen()
        simulation.run(seconds)
        stalled.append(truths(simulation.topology())[Condition.STALLED])
    no, yes = ConditionStatus.FALSE, ConditionStatus.TRUE
    assert stalled == [no, yes, yes, yes, yes, no]


def test_time_alone_makes_an_outage_a_stalled_one() -> None:
    simulation = fleet(a=Sight.UP)
    simulation.run(60)
    simulation.fail()
    looks = [simulation.pass_().look_again]
    simulation.run(120)
    assert [*looks, simulation.pass_().look_again] == [60, 60], "the lease comes first"
    assert truths(simulation.topology())[Condition.STALLED] is ConditionStatus.TRUE
