"""How the answers of several replicas become one, and what `up` adds to a targets API that may be too pessimistic."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime

from controller.facts import Sample, Target, TargetHealth


def merge_targets(answers: Sequence[Iterable[Target]]) -> tuple[Target, ...]:
    """Return each target once. Two entries are the same target if their job, instance and scrape URL are the same.

    - within one answer, as with a target that is found twice: an entry that is up wins, then the newest scrape
    - between the answers of replicas: the newest scrape wins, so one that was never scraped loses
    - otherwise the one that was named first wins
    """
    merged: dict[tuple[str, str, str], Target] = {}
    for answer in answers:
        once: dict[tuple[str, str, str], Target] = {}
        for target in answer:
            rival = once.setdefault(_key(target), target)
            if _within_one(target) > _within_one(rival):
                once[_key(target)] = target
        for key, target in once.items():
            rival = merged.setdefault(key, target)
            if scraped_at(target.last_scrape) > scraped_at(rival.last_scrape):
                merged[key] = target
    return tuple(merged.values())


def merge_samples(answers: Sequence[Iterable[Sample]]) -> tuple[Sample, ...]:
    """Return every series of every answer; of one that several replicas have, the first one's value."""
    if len(answers) == 1:  # as a rule
        return tuple(answers[0])
    merged: dict[tuple[str, frozenset[tuple[str, str]]], Sample] = {}
    for answer in answers:
        for sample in answer:
            merged.setdefault((sample.name, frozenset(sample.labels.items())), sample)
    return tuple(merged.values())


def lift(targets: Iterable[Target], up: Iterable[Sample]) -> tuple[Target, ...]:
    """Return the targets, up also where any series `up` of the same job and instance says so."""
    lifted = {(sample.labels.get("job", ""), sample.labels.get("instance", "")) for sample in up if sample.value == 1}
    return tuple(
        target._replace(health=TargetHealth.UP)
        if target.health is TargetHealth.DOWN and _key(target)[:2] in lifted
        else target
        for target in targets
    )


def scraped_at(last_scrape: str) -> float:
    """Return the moment of a scrape in seconds as its source counts them, 1 where it cannot be read, 0 for never."""
    if not last_scrape:
        return 0
    with suppress(ValueError, OverflowError):
        return float(last_scrape)
    with suppress(ValueError, OverflowError):
        return max(datetime.fromisoformat(last_scrape).timestamp(), 0)
    return 1


def _within_one(target: Target) -> tuple[bool, float]:
    return target.health is TargetHealth.UP, scraped_at(target.last_scrape)


def _key(target: Target) -> tuple[str, str, str]:
    return target.labels.get("job", ""), target.labels.get("instance", ""), target.scrape_url
