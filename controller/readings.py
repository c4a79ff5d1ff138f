"""What a card measures: which series say so, in which unit, and which values cannot be true."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from controller.exporters import Profile, Source
from controller.facts import ActiveGpu, Readings, Sample

Carrier = Readings | ActiveGpu


class Bounds(NamedTuple):
    """What a reading can be, and how far it must move to be worth a write."""

    low: float
    high: float
    deadband: float


BOUNDS: Mapping[str, Bounds] = {
    "gpu_temp_c": Bounds(-20, 150, deadband=1),
    "gpu_load_pct": Bounds(0, 110, deadband=5),  # some exporters overshoot 100 by a little
    "gpu_power_w": Bounds(0, 2000, deadband=5),
    "gpu_fan_rpm": Bounds(0, 20000, deadband=50),
    "gpu_fan_pct": Bounds(0, 200, deadband=5),  # some cards go past 100
    "gpu_memory_used_gb": Bounds(0, 16384, deadband=0.1),
}
"""By field of `Readings`. A value outside is an exporter's way to say that it does not know (-1, 2^63, NaN)."""


_ByName = defaultdict[str, list[Sample]]

TOTAL = "gpu_memory_total_gb"
"""What profiles know beside the fields of `Readings`: the size of a card's memory."""

_BOUNDS = {**BOUNDS, TOTAL: BOUNDS["gpu_memory_used_gb"]}
_NEVER_ZERO = {"gpu_temp_c", TOTAL}
"""Fields of which 0 means, with every exporter, that it does not know."""
_USED_AT_MOST = 1.05
"""How much more than all of its memory a card may seem to use: exporters count the reserved part differently."""


def recognise(samples: Iterable[Sample], profiles: Sequence[Profile]) -> tuple[Sample, ...]:
    """Return the series that speak of cards, each with its exporter's profile and the labels that its info adds.

    An exporter is recognised by the series of one target (job and instance). A series that fits several profiles, such
    as a person's own beside a built-in one, is returned once for each of them.
    """
    scrapes: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        scrapes[sample.labels.get("job", ""), sample.labels.get("instance", "")].append(sample)
    by_fingerprint: defaultdict[str, list[int]] = defaultdict(list)
    for rank, profile in enumerate(profiles):
        for name in profile.fingerprint:
            by_fingerprint[name].append(rank)
    wanted: dict[int, Mapping[str, Sequence[Mapping[str, str]]]] = {}
    found: list[Sample] = []
    for scrape in scrapes.values():
        names = {sample.name for sample in scrape}
        for rank in sorted({rank for name in names for rank in by_fingerprint.get(name, ())}):
            profile = profiles[rank]
            if rank not in wanted:
                wanted[rank] = _wanted(profile)
            failing = any(sample.name == profile.success and sample.value == 0 for sample in scrape)
            if not failing and names.isdisjoint(profile.absent):
                found += _joined([sample for sample in scrape if _speaks(sample, wanted[rank])], profile)
    return tuple(found)


def _wanted(profile: Profile) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """Return by name the labels that a series must have to speak of a card, in any of these ways."""
    ways: defaultdict[str, list[Mapping[str, str]]] = defaultdict(list)
    sources = [source for several in profile.readings.values() for source in several]
    for source in sources:
        ways[source.series].append(source.where)
        for name in source.plus:
            ways[name].append({})
    for name in profile.series:
        ways[name] = ways[name] or [{}]
    return ways


def _speaks(sample: Sample, wanted: Mapping[str, Sequence[Mapping[str, str]]]) -> bool:
    return any(not where or carries(sample.labels, where) for where in wanted.get(sample.name, ()))


def _joined(samples: Iterable[Sample], profile: Profile) -> Iterator[Sample]:
    """Yield a profile's series with the labels of the info series that belongs to each."""
    info = profile.info
    if info is None:
        yield from (Sample(*sample[:3], profile) for sample in samples)
        return
    own: list[Sample] = []
    others: list[Sample] = []
    for sample in samples:
        (own if sample.name == info.series else others).append(sample)
    own = [sample for sample in own if carries(sample.labels, info.where)]
    labels = {_key(sample.labels, info.on): sample.labels for sample in own}
    for sample in own:
        yield sample._replace(profile=profile)
    for sample in others:
        more = labels.get(_key(sample.labels, info.on))
        if more is not None or not info.required:
            yield sample._replace(profile=profile, labels={**(more or {}), **sample.labels})


def _key(labels: Mapping[str, str], on: Iterable[str]) -> tuple[str, ...]:
    return tuple(labels.get(label, "") for label in on)


def carries(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Tell whether labels are as wanted; an absent label is an empty one, as for Prometheus."""
    return all(labels.get(label, "") == value for label, value in wanted.items())


def read(samples: Iterable[Sample], profiles: Sequence[Profile]) -> Readings:
    """Make readings of a card's recognised series; see `measure` for what counts where several speak."""
    found = measure(samples, profiles)
    return Readings(**{field: found.get(field) for field in BOUNDS})


def measure(samples: Iterable[Sample], profiles: Sequence[Profile]) -> dict[str, float]:
    """Return what a card's recognised series say, by field, plausible values alone.

    Each field by itself comes from the first profile that has it, in the profiles' order; within a profile from its
    first source that has it; and of several series of a source (slices of a card, copies for each pod, engines) the
    highest counts, because it is the same whatever the order.
    """
    by_profile: defaultdict[str, _ByName] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        if sample.profile:
            by_profile[sample.profile.name][sample.name].append(sample)
    found: dict[str, float] = {}
    for profile in profiles:
        if own := by_profile.get(profile.name):
            for field, sources in profile.readings.items():
                if field not in found and (value := _first(field, sources, own)) is not None:
                    found[field] = value
    if found.get("gpu_memory_used_gb", 0) > found.get(TOTAL, inf) * _USED_AT_MOST:
        del found["gpu_memory_used_gb"]
    return found


def _first(field: str, sources: Iterable[Source], samples: _ByName) -> float | None:
    low, high, _ = _BOUNDS[field]
    for source in sources:
        if source.series not in samples:
            continue
        values = [round(value * source.scale, 2) for value in _raw(source, samples)]
        # No comparison is true of NaN.
        if plausible := [value for value in values if low <= value <= high and (value or field not in _NEVER_ZERO)]:
            return max(plausible)
    return None


def _raw(source: Source, samples: _ByName) -> Iterator[float]:
    for sample in samples[source.series]:
        if sample.value not in source.missing and (not source.where or carries(sample.labels, source.where)):
            addends = [_twin(sample, samples.get(name, ())) for name in source.plus]
            if None not in addends:
                yield sum((addend for addend in addends if addend is not None), sample.value)


def _twin(sample: Sample, others: Iterable[Sample]) -> float | None:
    """Return the value of that series of another name which has the same labels."""
    return next((other.value for other in others if other.labels == {**sample.labels, "__name__": other.name}), None)


def values(carrier: Readings) -> dict[str, Any]:
    """Return the readings of whatever carries some, by field."""
    return {field: getattr(carrier, field) for field in BOUNDS}


def moved(before: Carrier | None, after: Carrier) -> bool:
    """Tell whether a reading came, went, or left its deadband."""
    for field, bounds in BOUNDS.items():
        old, new = getattr(before, field, None), getattr(after, field, None)
        if old != new and (old is None or new is None or abs(old - new) > bounds.deadband):
            return True
    return False
