"""The next status of a RuntimeTopology."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controller import conditions, facts, modes, readings
from controller.conditions import State, truth
from controller.facts import (
    ConditionStatus,
    Counts,
    GpuEntry,
    GpuNode,
    Phase,
    RuntimeTopology,
    RuntimeTopologyStatus,
    SourceFailure,
    Transition,
)
from controller.names import Condition, Reason
from controller.settling import Settlement, settle
from controller.stopwatch import Stopwatch

TRANSITIONS = 20
"""How many mode changes a topology remembers, the newest first."""

STALLED_SECONDS = 120
"""After how long without Prometheus a topology counts as stalled: longer than a restart takes as a rule."""

_HOLD_TOLERANCE = timedelta(seconds=2)
"""By how much `holdUntil` may be off before it is written again, as after a jump of the wall clock."""

_SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Assessment:
    """A topology's status as of now, and in how many seconds time alone will change it."""

    status: RuntimeTopologyStatus
    look_again: float | None = None


def assess(
    topology: RuntimeTopology, cards: Sequence[GpuNode], failure: SourceFailure | None, watch: Stopwatch
) -> Assessment:
    """Make a topology's status of its cards as they have just been judged.

    The lists are always live; the mode settles. A topology without a mode gets its first one only from a believable
    answer of Prometheus.
    """
    last = topology.status or RuntimeTopologyStatus(observed_generation=0, counts=Counts())
    entries = [_entry(card) for card in sorted(cards, key=lambda card: card.name)]
    active, inventory, down, unknown = (
        tuple(entry for entry in entries if entry.status is phase)
        for phase in (Phase.ONLINE, Phase.EXPECTED_OFFLINE, Phase.UNEXPECTED_DOWN, Phase.UNKNOWN)
    )
    status = RuntimeTopologyStatus(
        observed_generation=topology.generation,
        mode=last.mode,
        degradation=last.degradation,
        active_gpus=active,
        inventory_gpus=inventory,
        unexpected_down=down,
        unknown_gpus=unknown,
        counts=Counts(
            total=len(entries),
            active=len(active),
            inventory=len(inventory),
            unexpected_down=len(down),
            unknown=len(unknown),
        ),
        active_vram_gb=sum(entry.vram_gb or 0 for entry in active),
        last_transition_time=last.last_transition_time,
        transitions=last.transitions,
    )
    settlement = None
    if last.mode or not failure:
        since = watch.seconds_since(topology.uid, "mode", last.last_transition_time or watch.stamp) if last.mode else 0
        candidate = modes.compute_mode(entry.status for entry in entries)
        settlement = settle(last.mode, candidate, since, topology.spec.stabilization_seconds)
        status = _settled(status, settlement, last, watch)
        if status.mode is not last.mode:
            watch.start(topology.uid, "mode")
    patience = _patience(topology.uid, last, watch) if failure else None
    states = _states(status, failure, patience)
    status = replace(status, conditions=conditions.update(last.conditions, states, topology.generation, watch.stamp))
    soon = [patience, settlement.remaining_seconds if settlement and settlement.pending else None]
    return Assessment(status, min((seconds for seconds in soon if seconds), default=None))


def describe(status: RuntimeTopologyStatus) -> str:
    """Say in a sentence which cards made the mode what it is."""
    parts = [f"{status.counts.active} of {status.counts.total} cards online"]
    for phase, entries in (
        (Phase.EXPECTED_OFFLINE, status.inventory_gpus),
        (Phase.UNEXPECTED_DOWN, status.unexpected_down),
        (Phase.UNKNOWN, status.unknown_gpus),
    ):
        if entries:
            more = f" and {len(entries) - 5} more" if len(entries) > 5 else ""  # noqa: PLR2004 - a glance's worth
            parts.append(f"{phase}: {', '.join(entry.name for entry in entries[:5])}{more}")
    return "; ".join(parts)


def quiet(last: RuntimeTopologyStatus, fresh: RuntimeTopologyStatus) -> RuntimeTopologyStatus:
    """Return the fresh status with whatever moves at each scrape as it was: readings, and texts that quote an error.

    Equal to the last status, it says that nothing of substance has changed.
    """
    before = {entry.name: entry for entry in last.active_gpus}
    said = {condition.type: condition for condition in last.conditions}
    return replace(
        fresh,
        active_gpus=tuple(_with_readings(entry, before.get(entry.name, entry)) for entry in fresh.active_gpus),
        conditions=tuple(
            replace(condition, message=said[condition.type].message) if condition.type in said else condition
            for condition in fresh.conditions
        ),
    )


def drifted(last: RuntimeTopologyStatus, fresh: RuntimeTopologyStatus) -> bool:
    """Tell whether what moves at each scrape has moved enough to be worth a write."""
    before = {entry.name: entry for entry in last.active_gpus}
    return last.conditions != fresh.conditions or any(
        readings.moved(before.get(entry.name), entry) for entry in fresh.active_gpus
    )


def _entry(card: GpuNode) -> GpuEntry:
    spec, status = card.spec, card.status
    entry = GpuEntry(
        name=card.name,
        model=card.model,
        host=spec.host if spec else None,
        vram_gb=spec.vram_gb if spec else None,
        status=status.phase if status else Phase.UNKNOWN,
        expected_offline=bool(spec and spec.expected_offline),
    )
    return _with_readings(entry, status) if status and status.phase is Phase.ONLINE else entry


def _with_readings(entry: GpuEntry, carrier: facts.GpuNodeStatus | GpuEntry) -> GpuEntry:
    return replace(
        entry,
        gpu_temp_c=carrier.gpu_temp_c,
        gpu_load_pct=carrier.gpu_load_pct,
        gpu_power_w=carrier.gpu_power_w,
        gpu_fan_rpm=carrier.gpu_fan_rpm,
        gpu_fan_pct=carrier.gpu_fan_pct,
    )


def _settled(
    status: RuntimeTopologyStatus, settlement: Settlement, last: RuntimeTopologyStatus, watch: Stopwatch
) -> RuntimeTopologyStatus:
    degradation = modes.DEGRADATIONS[settlement.mode]
    if settlement.mode is not last.mode:
        change = Transition(from_=last.mode, to=settlement.mode, at=watch.stamp, reason=modes.REASONS[settlement.mode])
        return replace(
            status,
            mode=settlement.mode,
            degradation=degradation,
            last_transition_time=watch.stamp,
            transitions=(change, *last.transitions)[:TRANSITIONS],
        )
    status = replace(status, degradation=degradation, last_transition_time=last.last_transition_time or watch.stamp)
    if settlement.pending:
        until = _hold_until(last.hold_until, watch.stamp_in(settlement.remaining_seconds))
        return replace(status, pending_mode=settlement.pending, hold_until=until)
    return status


def _hold_until(last: datetime | None, until: datetime) -> datetime:
    return last if last and abs(last - until) <= _HOLD_TOLERANCE else until


def _patience(uid: str, last: RuntimeTopologyStatus, watch: Stopwatch) -> float:
    """Return in how many seconds an outage counts as stalled; 0 once it does, until it ends."""
    source = conditions.find(last.conditions, Condition.SOURCE_AVAILABLE)
    if source is None or source.status is not ConditionStatus.FALSE:
        watch.start(uid, _SOURCE)
        return STALLED_SECONDS
    unavailable_seconds = watch.seconds_since(uid, _SOURCE, source.last_transition_time)
    stalled = conditions.find(last.conditions, Condition.STALLED)
    if stalled and stalled.status is ConditionStatus.TRUE:
        return 0
    return max(STALLED_SECONDS - unavailable_seconds, 0)


def _states(
    status: RuntimeTopologyStatus, failure: SourceFailure | None, patience: float | None
) -> dict[Condition, State]:
    if failure:
        ready = State(ConditionStatus.UNKNOWN, Reason.SOURCE_UNAVAILABLE, failure.message)
        source = State(ConditionStatus.FALSE, failure.reason, failure.message)
    else:
        ready = State(ConditionStatus.TRUE, Reason.CURRENT)
        source = State(ConditionStatus.TRUE, Reason.ANSWERING)
    if status.mode and status.degradation:
        degraded = State(truth(status.degradation.level > 0), modes.REASONS[status.mode], describe(status))
    else:
        degraded = State(ConditionStatus.UNKNOWN, Reason.AWAITING_SOURCE, "Prometheus has not answered yet")
    if status.pending_mode and status.hold_until:
        message = f"The mode becomes {status.pending_mode} at {status.hold_until:%H:%M:%S}Z unless the cards change"
        reconciling = State(ConditionStatus.TRUE, Reason.WINDOW_OPEN, message)
    else:
        reconciling = State(ConditionStatus.FALSE, Reason.SETTLED)
    stalled = State(ConditionStatus.FALSE, Reason.CURRENT)
    if failure and patience == 0:
        stalled = State(ConditionStatus.TRUE, Reason.SOURCE_UNAVAILABLE, failure.message)
    return {
        Condition.READY: ready,
        Condition.DEGRADED: degraded,
        Condition.SOURCE_AVAILABLE: source,
        Condition.RECONCILING: reconciling,
        Condition.STALLED: stalled,
    }
