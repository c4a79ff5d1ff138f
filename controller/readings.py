"""What a card measures: which series say so, in which unit, and which values cannot be true."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    "gpu_memory_used_gb": Bounds(0, 16384, deadband=0.1),
}
"""By field of `Readings`. A value outside is an exporter's way to say that it does not know (-1, 2^63, NaN)."""


class Series(NamedTuple):
    """What a series measures, and the factor to the field's unit."""

    field: str
    scale: float = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """An exporter, recognised by the names of its series."""

    name: str
    series: Mapping[str, Series]


PROFILES = (
    Profile(
        "lab",
        {
            "gpu_temp_c": Series("gpu_temp_c"),
            "gpu_load_pct": Series("gpu_load_pct"),
            "gpu_power_w": Series("gpu_power_w"),
            "gpu_fan_rpm": Series("gpu_fan_rpm"),
        },
    ),
    Profile(
        "dcgm-exporter",
        {
            "DCGM_FI_DEV_GPU_TEMP": Series("gpu_temp_c"),
            "DCGM_FI_DEV_GPU_UTIL": Series("gpu_load_pct"),
            "DCGM_FI_DEV_POWER_USAGE": Series("gpu_power_w"),
            "DCGM_FI_DEV_FB_USED": Series("gpu_memory_used_gb", scale=1 / 1024),  # MiB
        },
    ),
)

KNOWN_SERIES: Mapping[str, Series] = {name: series for profile in PROFILES for name, series in profile.series.items()}
"""Every series of every profile, by its name: what Prometheus is asked for."""


def read(samples: Iterable[Sample]) -> Readings:
    """Make readings of a card's series.

    More than one series for a field is normal (slices of a card, copies for each pod that uses it); the highest
    plausible value counts, because it is the same whatever the order.
    """
    found: dict[str, float] = {}
    for sample in samples:
        field, scale = KNOWN_SERIES[sample.name]
        value = sample.value * scale
        low, high, _ = BOUNDS[field]
        if low <= value <= high:  # never true of NaN
            found[field] = max(round(value, 2), found.get(field, low))
    return Readings(**found)


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
