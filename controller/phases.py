"""The judgement of a single card: the table of phases, row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller import faults
from controller.facts import GpuNodeSpec, GpuNodeStatus, Health, Phase, Target, TargetHealth
from controller.names import Reason

SEVERITY = (Phase.ONLINE, Phase.UNKNOWN, Phase.EXPECTED_OFFLINE, Phase.UNEXPECTED_DOWN)
"""From the best to the worst for the mode that follows."""

RULES: Mapping[Reason, str] = {
    Reason.INVALID_SPEC: "the declaration cannot be read: unknown",
    Reason.TARGET_MISSING: "no target matches: unknown, or planned absence; an online card stays so for a while",
    Reason.TARGET_AMBIGUOUS: "no target matches but through a name that several hosts have: as if none matched",
    Reason.TARGET_STALE: "a target is not scraped any more: unknown, or planned absence",
    Reason.NOT_SCRAPED_YET: "a target has not been scraped yet: whatever was judged last",
    Reason.METRICS_MISSING: "all targets are up, but no series is the card's: offline",
    Reason.TARGETS_UP: "all targets are up, and series are the card's: online",
    Reason.CARD_CLAIMED_TWICE: "an older GpuNode claims the same card: unknown, so that it counts once",
    Reason.SOURCE_UNAVAILABLE: "Prometheus cannot be asked or believed: whatever was judged last",
    **dict.fromkeys(faults.REASONS, "a target is down: offline, which is planned or a fault"),
}
"""What `judge` went by, by the reason that it gave."""

RIVALS_SHOWN = 5
"""How many hosts a message names of which any can be meant."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a card is judged to be, and why."""

    health: Health
    phase: Phase
    reason: Reason
    message: str
    current: bool = True
    """Judged from current data; false where the last judgement is only held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a survey says of one card."""

    targets: Sequence[Target]
    has_series: bool
    missing: str = ""
    """Where a target was looked for in vain, and what is near."""
    rivals: Sequence[str] = ()
    """The hosts of which any can be meant by the card's."""
    others: str = ""
    """Of which other cards the targets' series are, where that is known."""
    missing_seconds: float = 0
    """For how long no target has matched."""
    grace_seconds: float = 60
    """How long a card that was online keeps its phase without any target."""


def judge(spec: GpuNodeSpec, last: GpuNodeStatus | None, evidence: Evidence) -> Verdict:
    """Judge a card by what Prometheus shows of it: the first row that fits counts.

    - no target matches: unknown, or planned absence; a card that was online keeps its phase for a while, because
      service discovery refreshes
    - a target is down: offline; the reason says where the fault lies, as far as the error tells
    - a target is not scraped any more: unknown, or planned absence
    - a target has not been scraped yet: whatever was judged last
    - all targets are up, but no series is the card's: offline
    - else online, also where being off was planned: the flag tolerates absence, it does not forbid presence

    Lack of knowledge is never offline.
    """
    targets, expected = evidence.targets, spec.expected_offline
    if not targets:
        return _missing(spec, last, evidence)
    if down := [target for target in targets if target.health is TargetHealth.DOWN and not target.stale]:
        message = f"{_count(down, targets)} down: {_url(down)}: {down[0].last_error or 'no error given'}"
        reason = faults.common_reason(target.last_error for target in down)
        return Verdict(Health.OFFLINE, _absent(expected=expected), reason, message)
    if stale := [target for target in targets if target.stale]:
        message = f"{_count(stale, targets)} not scraped any more, so what was seen last is old: {_url(stale)}"
        phase = Phase.EXPECTED_OFFLINE if expected else Phase.UNKNOWN
        return Verdict(Health.UNKNOWN, phase, Reason.TARGET_STALE, message)
    if waiting := [target for target in targets if target.health is TargetHealth.UNKNOWN]:
        message = f"{_count(waiting, targets)} not scraped yet: {_url(waiting)}"
        return hold(spec, last, Reason.NOT_SCRAPED_YET, message)
    if not evidence.has_series:
        return Verdict(
            Health.OFFLINE,
            _absent(expected=expected),
            Reason.METRICS_MISSING,
            f"{_count(targets, targets)} up, but no series is this card's: its driver is gone, it is off the bus, "
            f"or spec.card does not fit{evidence.others and '; ' + evidence.others}",
        )
    return Verdict(Health.ONLINE, Phase.ONLINE, Reason.TARGETS_UP, f"{_count(targets, targets)} up")


def hold(spec: GpuNodeSpec, last: GpuNodeStatus | None, reason: Reason, message: str) -> Verdict:
    """Keep the last judgement while nothing current is known, with the declaration as it is now.

    Prometheus says nothing new, but a person may have: the phase of a card that was off follows its `expectedOffline`.
    """
    expected = spec.expected_offline
    health = last.health if last else Health.UNKNOWN
    match last.phase if last else None:
        case Phase.ONLINE:
            phase = Phase.ONLINE
        case Phase.EXPECTED_OFFLINE | Phase.UNEXPECTED_DOWN if expected:
            phase = Phase.EXPECTED_OFFLINE
        case Phase.EXPECTED_OFFLINE | Phase.UNEXPECTED_DOWN if health is Health.OFFLINE:
            phase = Phase.UNEXPECTED_DOWN
        case _ if expected and reason is Reason.NOT_SCRAPED_YET:
            phase = Phase.EXPECTED_OFFLINE
        case _:
            phase = Phase.UNKNOWN
    return Verdict(health, phase, reason, message, current=False)


def claimed_by(owner: str) -> Verdict:
    """Judge a card that an older GpuNode claims too: one card must not count twice, so of this one nothing is known."""
    message = f"GpuNode {owner} is older and claims the same card; delete one of them, or tell them apart by spec.card"
    return Verdict(Health.UNKNOWN, Phase.UNKNOWN, Reason.CARD_CLAIMED_TWICE, message)


def _missing(spec: GpuNodeSpec, last: GpuNodeStatus | None, evidence: Evidence) -> Verdict:
    if evidence.rivals:
        reason = Reason.TARGET_AMBIGUOUS
        message = f"Host {spec.host} can be any of {', '.join(evidence.rivals[:RIVALS_SHOWN])} in Prometheus"
        advice = "; write the name in full, here and there"
    else:
        reason = Reason.TARGET_MISSING
        message = f"No scrape target of Prometheus is on host {spec.host} and on a port of this card"
        advice = "; add it to Prometheus or correct spec.host"
    if last and last.phase is Phase.ONLINE and evidence.missing_seconds < evidence.grace_seconds:
        message += f" any more; the card counts as online until that has lasted {evidence.grace_seconds:g} s"
        return Verdict(Health.UNKNOWN, Phase.ONLINE, reason, message)
    phase = Phase.EXPECTED_OFFLINE if spec.expected_offline else Phase.UNKNOWN
    message += f": {evidence.missing}" if evidence.missing else ""
    return Verdict(Health.UNKNOWN, phase, reason, message + advice)


def _absent(*, expected: bool) -> Phase:
    return Phase.EXPECTED_OFFLINE if expected else Phase.UNEXPECTED_DOWN


def _count(some: Sequence[Target], targets: Sequence[Target]) -> str:
    if len(targets) == 1:
        return "The target is"
    if len(some) == len(targets):
        return f"All {len(targets)} targets are"
    return f"{len(some)} of {len(targets)} targets {'is' if len(some) == 1 else 'are'}"


def _url(targets: Sequence[Target]) -> str:
    return targets[0].scrape_url
