"""The next status of a RuntimeTopology."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controller import conditions, listings, modes, readings, selectors, services
from controller.cards import View
from controller.conditions import State, truth
from controller.facts import (
    ConditionStatus,
    Counts,
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

CAUSES = 10
"""How many cards are named as the cause of a mode change."""

STALLED_SECONDS = 120
"""After how long without Prometheus a topology counts as stalled: longer than a restart takes as a rule."""

_HOLD_TOLERANCE = timedelta(seconds=2)
"""By how much `holdUntil` may be off before it is written again, as after a jump of the wall clock."""

_SOURCE, _LEASE = "source", "lease"


@dataclass(frozen=True, slots=True)
class Assessment:
    """A topology's status as of now, and in how many seconds time alone will change it."""

    status: RuntimeTopologyStatus
    look_again: float | None = None


def assess(topology: RuntimeTopology, cards: Sequence[GpuNode], view: View) -> Assessment:
    """Make a topology's status of the cards that its selector picks, as they have just been judged.

    The lists are always live; the mode settles. A topology without a mode gets its first one only from a believable
    answer of Prometheus. Where the spec cannot be read, it is not known which cards belong: all stays as it is.
    """
    watch, failure = view.watch, view.seen if isinstance(view.seen, SourceFailure) else None
    last = topology.status or RuntimeTopologyStatus(observed_generation=0, counts=Counts())
    status = replace(
        last,
        observed_generation=topology.generation,
        observed_at=_confirmed_at(last.observed_at, watch.stamp),
        valid_for_seconds=view.policy.valid_for_seconds,
    )
    settlement = None
    if not topology.problem:
        members = [card for card in cards if selectors.picks(topology.spec.selector, card.labels)]
        where = failure or view.at_services
        seen = services.assess(topology.spec.services or (), last.services, where, view.recovered_seconds)
        status = replace(status, **listings.listed(members), services=seen)
        if last.mode or not failure:
            since = (
                watch.seconds_since(topology.uid, "mode", last.last_transition_time or watch.stamp) if last.mode else 0
            )
            candidate = modes.compute_mode(listings.phases(members))
            settlement = settle(last.mode, candidate, since, topology.spec.stabilization_seconds)
            status = _settled(status, settlement, last, members, watch)
            if status.mode is not last.mode:
                watch.start(topology.uid, "mode")
    patience = _patience(topology.uid, last, watch) if failure else None
    states = _states(status, topology.problem, failure, patience, view.source)
    status = replace(status, conditions=conditions.update(last.conditions, states, topology.generation, watch.stamp))
    soon = [patience, settlement.remaining_seconds if settlement and settlement.pending else None]
    return Assessment(status, min((seconds for seconds in soon if seconds), default=None))


def lease_seconds(topology: RuntimeTopology, view: View) -> float:
    """Return in how many seconds the lease is due to be renewed; 0 or less where it is now."""
    observed_at = topology.status.observed_at if topology.status else None
    if observed_at is None:
        return 0
    return renewal_seconds(view) - view.watch.seconds_since(topology.uid, _LEASE, observed_at)


def renew(topology: RuntimeTopology, status: RuntimeTopologyStatus, view: View) -> float:
    """Take note that a status renews the lease now; return in how many seconds it is due again."""
    view.watch.start(topology.uid, _LEASE, status.observed_at)
    return renewal_seconds(view)


def renewal_seconds(view: View) -> float:
    """Return how often the lease is renewed: two renewals may fail before it ends."""
    return view.policy.valid_for_seconds / 3


def describe(status: RuntimeTopologyStatus) -> str:
    """Say in a sentence which cards made the mode what it is."""
    parts = [f"{status.counts.active} of {status.counts.total} cards online"]
    for phase, (entries, count) in listings.shown(status).items():
        if entries and phase is not Phase.ONLINE:
            more = f" and {count - 5} more" if count > 5 else ""  # noqa: PLR2004 - a glance's worth
            parts.append(f"{phase}: {', '.join(entry.name for entry in entries[:5])}{more}")
    return "; ".join(parts)


def quiet(last: RuntimeTopologyStatus, fresh: RuntimeTopologyStatus) -> RuntimeTopologyStatus:
    """Return the fresh status with whatever moves by itself as it was: readings, texts that quote an error, the lease.

    Equal to the last status, it says that nothing of substance has changed.
    """
    before = {entry.name: entry for entry in last.active_gpus}
    said = {condition.type: condition for condition in last.conditions}
    same_services = services.without_messages(last.services) == services.without_messages(fresh.services)
    return replace(
        fresh,
        active_gpus=tuple(listings.with_readings(entry, before.get(entry.name, entry)) for entry in fresh.active_gpus),
        services=last.services if same_services else fresh.services,
        observed_at=last.observed_at,
        conditions=tuple(
            replace(condition, message=said[condition.type].message) if condition.type in said else condition
            for condition in fresh.conditions
        ),
    )


def drifted(last: RuntimeTopologyStatus, fresh: RuntimeTopologyStatus) -> bool:
    """Tell whether what moves at each scrape has moved enough to be worth a write."""
    before = {entry.name: entry for entry in last.active_gpus}
    return (
        last.conditions != fresh.conditions
        or last.services != fresh.services
        or any(readings.moved(before.get(entry.name), entry) for entry in fresh.active_gpus)
    )


def _settled(
    status: RuntimeTopologyStatus,
    settlement: Settlement,
    last: RuntimeTopologyStatus,
    cards: Sequence[GpuNode],
    watch: Stopwatch,
) -> RuntimeTopologyStatus:
    degradation = modes.DEGRADATIONS[settlement.mode]
    status = replace(status, degradation=degradation, pending_mode=None, hold_until=None, pending_cards=())
    causes: tuple[str, ...] = ()
    if settlement.pending or settlement.mode is not last.mode:
        # Lists are live: what made a change pending shows in no later difference, so it is kept until the change.
        causes = tuple(sorted({*last.pending_cards, *listings.changed(last, cards)})[:CAUSES])
    if settlement.mode is not last.mode:
        change = Transition(
            from_=last.mode,
            to=settlement.mode,
            level=degradation.level,
            at=watch.stamp,
            reason=modes.REASONS[settlement.mode],
            cards=causes,
        )
        return replace(
            status,
            mode=settlement.mode,
            last_transition_time=watch.stamp,
            transitions=(change, *last.transitions)[:TRANSITIONS],
        )
    status = replace(status, last_transition_time=last.last_transition_time or watch.stamp)
    if settlement.pending:
        until = _hold_until(last.hold_until, watch.stamp_in(settlement.remaining_seconds))
        return replace(status, pending_mode=settlement.pending, hold_until=until, pending_cards=causes)
    return status


def _confirmed_at(last: datetime | None, stamp: datetime) -> datetime:
    """Return a stamp that never goes back: where the wall clock did, consumers still have to see each renewal."""
    return stamp if last is None or stamp >= last else last + timedelta(seconds=1)


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
    status: RuntimeTopologyStatus, problem: str, failure: SourceFailure | None, patience: float | None, origin: str
) -> dict[Condition, State]:
    ready = State(ConditionStatus.TRUE, Reason.CURRENT)
    source = State(ConditionStatus.TRUE, Reason.ANSWERING, origin)
    stalled = State(ConditionStatus.FALSE, Reason.CURRENT)
    if failure:
        ready = State(ConditionStatus.UNKNOWN, Reason.SOURCE_UNAVAILABLE, failure.message)
        source = State(ConditionStatus.FALSE, failure.reason, failure.message)
        if patience == 0:
            stalled = State(ConditionStatus.TRUE, Reason.SOURCE_UNAVAILABLE, failure.message)
    if problem:
        message = f"{problem}; edit this RuntimeTopology"
        ready = State(ConditionStatus.FALSE, Reason.INVALID_SPEC, message)
        stalled = State(ConditionStatus.TRUE, Reason.INVALID_SPEC, message)
    if status.mode and status.degradation:
        degraded = State(truth(status.degradation.level > 0), modes.REASONS[status.mode], describe(status))
    else:
        degraded = State(ConditionStatus.UNKNOWN, Reason.AWAITING_SOURCE, "Prometheus has not answered yet")
    return {
        Condition.READY: ready,
        Condition.DEGRADED: degraded,
        Condition.SOURCE_AVAILABLE: source,
        Condition.SERVICES_HEALTHY: services.state(status.services),
        Condition.RECONCILING: _reconciling(status, stalled),
        Condition.STALLED: stalled,
    }


def _reconciling(status: RuntimeTopologyStatus, stalled: State) -> State:
    """Say what is being waited for. What is stalled is not reconciling: tools that know both look at this first."""
    message = ""
    if status.pending_mode and status.hold_until:
        message = f"The mode becomes {status.pending_mode} at {status.hold_until:%H:%M:%S}Z unless the cards change"
    if stalled.status is ConditionStatus.TRUE:
        return State(ConditionStatus.FALSE, stalled.reason, message)
    if message:
        return State(ConditionStatus.TRUE, Reason.WINDOW_OPEN, message)
    if status.mode is None:
        return State(ConditionStatus.TRUE, Reason.AWAITING_SOURCE, "Prometheus has not answered yet")
    return State(ConditionStatus.FALSE, Reason.SETTLED)
