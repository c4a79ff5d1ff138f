"""The next status of a GpuNode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from controller import conditions, phases, readings
from controller.conditions import MESSAGE_LIMIT, State, truth
from controller.facts import (
    ConditionStatus,
    GpuNode,
    GpuNodeStatus,
    Health,
    Phase,
    Policy,
    Readings,
    SourceFailure,
    Target,
    TargetHealth,
    TargetStatus,
)
from controller.matching import Finding
from controller.names import Condition, Reason
from controller.phases import Evidence, Verdict
from controller.stopwatch import Stopwatch

CONFIRM_SECONDS = 1.0
"""How soon to look again before an online card is called offline for lack of series alone.

Prometheus reports a target as up some milliseconds before that scrape's series can be queried.
"""

TARGETS_LIMIT = 64
"""How many targets a status lists. This limit, and those of its texts, are the CRD's: beyond, no status is taken."""

_TARGET_MISSING = "targetMissing"


@dataclass(frozen=True, slots=True)
class Assessment:
    """A card's status as of now, and what else the pass has to know."""

    status: GpuNodeStatus
    suspect: bool = False
    """Online, but its series were not there: to be confirmed by another look."""
    look_again: float | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What all cards are judged by in a pass."""

    seen: Mapping[str, Finding] | SourceFailure
    """By the GpuNode's uid."""
    policy: Policy
    watch: Stopwatch
    recovered_seconds: float = inf
    """For how long Prometheus has been believed again after a failure."""
    queryable: bool = True
    """Whether series can be had at all; where not, cards count as having some."""
    source: str = ""
    """Where health and readings are known from."""
    at_services: Mapping[tuple[str, int], Sequence[Target]] = field(default_factory=dict)
    """The targets at each service's host and port."""


def assess(node: GpuNode, view: View, *, suspected_seconds: float) -> Assessment:
    """Judge a card and make its status of that.

    A judgement that is only held leaves the status as it stands, unless the declaration has changed since.
    `suspected_seconds` is for how long the card has been a suspect, 0 where it is none yet.
    """
    spec, last, watch = node.spec, node.status, view.watch
    if spec is None:
        verdict = Verdict(Health.UNKNOWN, Phase.UNKNOWN, Reason.INVALID_SPEC, f"{node.problem}; edit this GpuNode")
        return Assessment(_status(node, verdict, (), Readings(), watch))
    missing = _seconds_missing(node.uid, last, watch)
    if isinstance(view.seen, SourceFailure):
        verdict = phases.hold(spec, last, Reason.SOURCE_UNAVAILABLE, view.seen.message)
        return Assessment(_held(node, verdict, (), watch))

    found = view.seen[node.uid]
    targets = found.match.targets
    evidence = Evidence(
        targets=targets,
        has_series=bool(found.samples) or not view.queryable,
        missing=found.missing,
        rivals=found.match.rivals,
        others=found.others,
        missing_seconds=missing or 0,
        grace_seconds=view.policy.target_missing_seconds,
    )
    verdict = phases.claimed_by(found.owner) if found.owner else phases.judge(spec, last, evidence)
    if found.note:
        verdict = replace(verdict, message=f"{verdict.message}; {found.note}")
    if wait := _wait_seconds(verdict, last, targets, view.recovered_seconds, suspected_seconds=suspected_seconds):
        held = phases.hold(spec, last, verdict.reason, verdict.message)
        suspect = verdict.reason is Reason.METRICS_MISSING
        return Assessment(_held(node, held, targets, watch), suspect=suspect, look_again=wait)
    if not verdict.current:
        return Assessment(_held(node, verdict, targets, watch))
    values = readings.read(found.samples, view.policy.profiles) if verdict.health is Health.ONLINE else Readings()
    status = _status(node, verdict, targets, values, watch)
    if not targets and verdict.phase is Phase.ONLINE:
        if missing is None:
            watch.start(node.uid, _TARGET_MISSING)
        return Assessment(status, look_again=view.policy.target_missing_seconds - (missing or 0))
    return Assessment(status)


def _wait_seconds(
    verdict: Verdict,
    last: GpuNodeStatus | None,
    targets: Sequence[Target],
    recovered_seconds: float,
    *,
    suspected_seconds: float,
) -> float:
    """Return in how many seconds to look again before a worse verdict counts; 0 where it counts now.

    A Prometheus that is back needs a full scrape interval before anything may get worse.
    """
    if last is None or phases.SEVERITY.index(verdict.phase) <= phases.SEVERITY.index(last.phase):
        return 0
    scrape_seconds = max((target.scrape_seconds for target in targets), default=0)
    if recovered_seconds < scrape_seconds:
        return scrape_seconds - recovered_seconds
    lost_series = verdict.reason is Reason.METRICS_MISSING and last.phase is Phase.ONLINE
    return max(CONFIRM_SECONDS - suspected_seconds, 0) if lost_series else 0


def quiet(last: GpuNodeStatus, fresh: GpuNodeStatus) -> GpuNodeStatus:
    """Return the fresh status with whatever moves at each scrape as it was: readings, and texts that quote an error.

    Equal to the last status, it says that nothing of substance has changed.
    """
    return replace(
        fresh,
        **readings.values(last),
        message=last.message if last.reason is fresh.reason else fresh.message,
        targets=last.targets if _without_errors(last.targets) == _without_errors(fresh.targets) else fresh.targets,
    )


def drifted(last: GpuNodeStatus, fresh: GpuNodeStatus) -> bool:
    """Tell whether what moves at each scrape has moved enough to be worth a write."""
    return readings.moved(last, fresh) or last.message != fresh.message or last.targets != fresh.targets


def _without_errors(targets: Sequence[TargetStatus]) -> list[TargetStatus]:
    return [replace(target, last_error="") for target in targets]


def _seconds_missing(uid: str, last: GpuNodeStatus | None, watch: Stopwatch) -> float | None:
    """Return for how long no target has matched; None where the last status says that one does."""
    matched = conditions.find(last.conditions, Condition.TARGET_MATCHED) if last else None
    if matched and matched.status is ConditionStatus.FALSE:
        return watch.seconds_since(uid, _TARGET_MISSING, matched.last_transition_time)
    return None


def _held(node: GpuNode, verdict: Verdict, targets: Sequence[Target], watch: Stopwatch) -> GpuNodeStatus:
    last = node.status
    if last is None:
        return _status(node, verdict, targets, Readings(), watch)
    # A target that is back, though not scraped yet, ends the time without one: the next absence has its own.
    matched = conditions.find(last.conditions, Condition.TARGET_MATCHED)
    returned = bool(targets) and not (matched and matched.status is ConditionStatus.TRUE)
    if last.observed_generation == node.generation and not returned:
        return last
    status = _status(node, verdict, targets, Readings(), watch)
    return replace(status, targets=status.targets or last.targets, **readings.values(last))


def _status(
    node: GpuNode, verdict: Verdict, targets: Sequence[Target], values: Readings, watch: Stopwatch
) -> GpuNodeStatus:
    last = node.status
    return GpuNodeStatus(
        observed_generation=node.generation,
        model=node.model,
        phase=verdict.phase,
        health=verdict.health,
        reason=verdict.reason,
        message=verdict.message[:MESSAGE_LIMIT],
        targets=tuple(
            TargetStatus(
                scrape_url=target.scrape_url[:2048],
                job=target.labels.get("job", "")[:253],
                health=TargetHealth.UNKNOWN if target.stale else target.health,
                last_error=target.last_error[:1024],
            )
            for target in targets[:TARGETS_LIMIT]
        ),
        last_transition_time=last.last_transition_time if last and last.phase is verdict.phase else watch.stamp,
        conditions=conditions.update(
            last.conditions if last else (), _states(node, verdict, targets), node.generation, watch.stamp
        ),
        **readings.values(values),
    )


def _states(node: GpuNode, verdict: Verdict, targets: Sequence[Target]) -> dict[Condition, State]:
    online = None if verdict.phase is Phase.UNKNOWN else verdict.phase is Phase.ONLINE
    if node.spec is None:
        ready = State(ConditionStatus.FALSE, verdict.reason, verdict.message)
        matched = State(ConditionStatus.UNKNOWN, verdict.reason)
    elif verdict.current:
        ready = State(ConditionStatus.TRUE, Reason.CURRENT)
        matched = State(truth(bool(targets)), Reason.TARGET_FOUND if targets else verdict.reason)
    else:
        ready = State(ConditionStatus.UNKNOWN, verdict.reason, verdict.message)
        old = conditions.find(node.status.conditions, Condition.TARGET_MATCHED) if node.status else None
        if targets:
            matched = State(ConditionStatus.TRUE, Reason.TARGET_FOUND)
        else:
            matched = State(old.status, old.reason) if old else State(ConditionStatus.UNKNOWN, verdict.reason)
    return {
        Condition.READY: ready,
        Condition.ONLINE: State(truth(online), verdict.reason),
        Condition.TARGET_MATCHED: matched,
    }
