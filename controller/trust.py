"""Whether an answer of Prometheus can be believed: what is valid may still be wrong.

A fault of the source must not look like a fault of the fleet. Everything here is bounded in time, because the worst can
be true: a doubt that lasts is given up, and what the answer says then counts.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace

from controller.facts import Observation, SourceFailure, Survey, Target, TargetHealth, TargetKey, Trust
from controller.names import Reason

DOUBT_SECONDS = 60.0
"""How long an answer that is not believable counts as a failure of the source, before it is believed after all."""

STALE_INTERVALS = 4
"""How many scrape intervals a target may stay without a new scrape before what is known of it counts as old."""

STALE_SLACK_SECONDS = 10.0
"""Added to that, for targets that are scraped each second."""


def weigh(observation: Observation, trust: Trust, gpu_hosts: AbstractSet[str], now: float) -> tuple[Observation, Trust]:
    """Return what to believe, and what to remember; targets that are not scraped any more are marked stale.

    An answer is not believed, for DOUBT_SECONDS at most, if

    - it says itself that a part is missing, and something is missing that was there a moment ago
    - nothing in it has been scraped for several intervals
    - of several targets most are gone at once
    - all targets on the cards' hosts go down at once, and half of the others with them

    A lone card can always die: no rule makes a difference between one target's fault and another's.
    """
    if isinstance(observation, SourceFailure):
        return observation, replace(trust, failed=True, doubted_at=None)
    keyed = {_key(target): target for target in observation.targets}
    scrapes = {key: _first_seen(target, trust.scrapes.get(key), now) for key, target in keyed.items()}
    targets = {key: target._replace(stale=_is_stale(target, scrapes[key][1], now)) for key, target in keyed.items()}
    up_at = {
        key: now if target.health is TargetHealth.UP else trust.up_at.get(key, float("-inf"))
        for key, target in targets.items()
    }
    survey = replace(observation, targets=tuple(targets.values()))
    spoke = {(sample.labels.get("job", ""), sample.labels.get("instance", "")) for sample in survey.samples}
    trust = replace(trust, scrapes=scrapes, up_at=up_at)
    believing = replace(trust, known=targets.keys(), spoke=spoke, failed=False)
    lost_at = now if trust.doubted_at is None else trust.doubted_at
    doubt = _doubt(survey, trust, believing, gpu_hosts, lost_at)
    if doubt is None:
        recovered_at = now if trust.failed else trust.recovered_at
        return survey, replace(believing, doubted_at=None, recovered_at=recovered_at)
    doubted_at = now if trust.doubted_at is None else trust.doubted_at
    if now - doubted_at >= DOUBT_SECONDS:
        return survey, replace(believing, doubted_at=doubted_at)
    message = f"{doubt.message}; believed after all once that has lasted {DOUBT_SECONDS:g} s"
    return SourceFailure(doubt.reason, message), replace(trust, failed=True, doubted_at=doubted_at)


def _first_seen(target: Target, before: tuple[str, float] | None, now: float) -> tuple[str, float]:
    return before if before and before[0] == target.last_scrape else (target.last_scrape, now)


def _is_stale(target: Target, first_seen: float, now: float) -> bool:
    if not target.last_scrape or target.health is TargetHealth.UNKNOWN:
        return False  # a source that does not say, or a target that waits for its first scrape
    return now - first_seen > STALE_INTERVALS * target.scrape_seconds + STALE_SLACK_SECONDS


def _doubt(
    survey: Survey, before: Trust, after: Trust, gpu_hosts: AbstractSet[str], lost_at: float
) -> SourceFailure | None:
    if survey.partial and (before.known - after.known or before.spoke - after.spoke):
        return SourceFailure(Reason.PARTIAL_ANSWER, f"Prometheus says that a part is missing: {survey.partial}")
    if survey.targets and all(target.stale for target in survey.targets):
        text = f"Prometheus has scraped none of its {len(survey.targets)} targets for several intervals"
        return SourceFailure(Reason.SCRAPES_STOPPED, text)
    left = len(before.known & after.known)
    if len(before.known) > 1 and left < len(before.known) / 2:
        text = f"Prometheus knows only {left} of the {len(before.known)} targets that it had a moment ago"
        return SourceFailure(Reason.TARGETS_VANISHED, text)
    # Targets are scraped one after the other: what went down at once is seen within an interval, not in one pass.
    lately_up = [one for one in survey.targets if lost_at - after.up_at[_key(one)] <= 2 * one.scrape_seconds]
    of_cards = [target for target in lately_up if target.host in gpu_hosts]
    others = [target for target in lately_up if target.host not in gpu_hosts]
    lost = [target for target in others if target.health is TargetHealth.DOWN]
    all_lost = all(target.health is TargetHealth.DOWN for target in of_cards)
    if of_cards and all_lost and others and 2 * len(lost) >= len(others):
        text = f"All {len(of_cards)} targets of cards went down at once, and {len(lost)} of {len(others)} others with"
        return SourceFailure(Reason.SCRAPER_CUT_OFF, f"{text} them: Prometheus itself seems cut off")
    return None


def _key(target: Target) -> TargetKey:
    return target.labels.get("job", ""), target.labels.get("instance", ""), target.scrape_url
