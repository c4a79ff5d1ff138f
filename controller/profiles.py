"""The known exporters: those of `profiles.yaml`, and those of a person's own file."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from annotated_types import MaxLen, MinLen
from pydantic import ConfigDict, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import to_json

from controller.exporters import Identity, Info, Profile, Source

_SCALES = {"ratio": 100, "milli": 1e-3, "micro": 1e-6, "MiB": 2**-10, "bytes": 2**-30}
_FIELDS = {
    "gpuTempC": "gpu_temp_c",
    "gpuLoadPct": "gpu_load_pct",
    "gpuPowerW": "gpu_power_w",
    "gpuFanRpm": "gpu_fan_rpm",
    "gpuFanPct": "gpu_fan_pct",
    "gpuMemoryUsedGb": "gpu_memory_used_gb",
    "gpuMemoryTotalGb": "gpu_memory_total_gb",
}
_STRICT = ConfigDict(extra="forbid", strict=True)
for _type in (Info, Identity):
    setattr(_type, "__pydantic_config__", _STRICT)  # noqa: B010 - the shape itself knows nothing of pydantic
_SERIES = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")

Names = tuple[str, ...]
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=63)]
_Field = Literal["gpuTempC", "gpuLoadPct", "gpuPowerW", "gpuFanRpm", "gpuFanPct", "gpuMemoryUsedGb", "gpuMemoryTotalGb"]


class ProfileError(Exception):
    """A file of profiles cannot be used; the text names the file, the profile and the field."""


@dataclass(frozen=True, kw_only=True)
class _Source:
    __pydantic_config__ = _STRICT

    series: str
    scale: float | Literal["ratio", "milli", "micro", "MiB", "bytes"] = 1
    where: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[float, ...] = ()
    plus: Names = ()


@dataclass(frozen=True, kw_only=True)
class _Profile:
    """A profile as it is spelled in a file."""

    __pydantic_config__ = _STRICT

    name: _Name
    title: str = ""
    prefixes: Annotated[Names, MinLen(1)] = ("",)
    readings: Annotated[Mapping[_Field, Annotated[tuple[_Source, ...], MinLen(1), MaxLen(16)]], MinLen(1)]
    fingerprint: Names = ()
    absent: Names = ()
    success: str = ""
    info: Info | None = None
    identity: Identity = field(default_factory=Identity)
    replaces: Names = ()
    note: str = ""


_ENTRIES = TypeAdapter(list[_Profile])


@cache
def built_in() -> tuple[Profile, ...]:
    """Return the profiles that come with the operator, by falling precedence."""
    text = (resources.files("controller") / "profiles.yaml").read_text()
    return tuple(_profile(entry) for entry in _entries(text))


def load(path: Path) -> tuple[Profile, ...]:
    """Return a person's own profiles, which come first, and the built-in ones that they do not replace.

    Raise ProfileError on the first fault. A series of a built-in profile may stand in a person's own only where that
    `replaces` the built-in one: nobody shall lose readings by a name that two exporters happen to share.
    """
    try:
        own = _entries(path.read_text())
        _check(own)
    except (OSError, ValueError) as error:
        raise ProfileError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    replaced = {name for entry in own for name in entry.replaces}
    kept = tuple(profile for profile in built_in() if profile.name not in replaced)
    return (*(_profile(entry) for entry in own), *kept)


def series(profiles: Iterable[Profile]) -> frozenset[str]:
    """Return the names of all series that Prometheus must be asked for."""
    return frozenset[str]().union(*(profile.needs for profile in profiles))


def _entries(text: str) -> list[_Profile]:
    try:
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"this is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, list):
        raise ValueError("a list of profiles is needed")  # noqa: TRY004 - a fault of the file, not of the program
    spelled = [_spelled_out(entry) for entry in raw]
    try:
        return _ENTRIES.validate_json(to_json(spelled, fallback=str))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        rank, *where = (part for part in fault["loc"] if part != "[key]")
        raise ValueError(f"{_called(raw, rank)}: {'.'.join(map(str, where))}: {fault['msg']}") from None


def _called(raw: Sequence[Any], rank: object) -> str:
    entry = raw[rank] if isinstance(rank, int) else None
    name = entry.get("name") if isinstance(entry, dict) else None
    return f"profile {name}" if isinstance(name, str) else f"profile number {rank}, counted from 0"


def _spelled_out(entry: Any) -> Any:  # noqa: ANN401 - what a file holds
    """Write each reading as the list of sources that it is short for."""
    readings = entry.get("readings") if isinstance(entry, dict) else None
    if not isinstance(readings, dict):
        return entry
    lists = {name: several if isinstance(several, list) else [several] for name, several in readings.items()}
    sources = {
        name: [{"series": one} if isinstance(one, str) else one for one in several] for name, several in lists.items()
    }
    return {**entry, "readings": sources}


def _profile(entry: _Profile) -> Profile:
    readings = {
        _FIELDS[name]: tuple(_source(source, prefix) for source in several for prefix in entry.prefixes)
        for name, several in entry.readings.items()
    }
    shown = [source.series for several in readings.values() for source in several]
    return Profile(
        name=entry.name,
        title=entry.title or entry.name,
        readings=readings,
        fingerprint=entry.fingerprint or tuple(dict.fromkeys(shown)),
        absent=entry.absent,
        success=entry.success,
        info=entry.info,
        identity=entry.identity,
        note=entry.note,
    )


def _source(source: _Source, prefix: str) -> Source:
    return Source(
        series=prefix + source.series,
        scale=_SCALES[source.scale] if isinstance(source.scale, str) else source.scale,
        where=source.where,
        missing=source.missing,
        plus=tuple(prefix + name for name in source.plus),
    )


def _check(own: Sequence[_Profile]) -> None:
    names = [entry.name for entry in own]
    theirs = {profile.name: profile for profile in built_in()}
    for entry in own:
        what = f"profile {entry.name}"
        if names.count(entry.name) > 1:
            raise ValueError(f"{what}: name: it is declared twice")
        if unknown := sorted({*entry.replaces} - theirs.keys()):
            raise ValueError(f"{what}: replaces: {unknown[0]} is no built-in profile")
        profile = _profile(entry)
        for name in sorted(profile.needs):
            if not _SERIES.fullmatch(name):
                raise ValueError(f"{what}: {name!r} is not a series name: letters, digits, _ and : alone")
        if entry.name in theirs and entry.name not in entry.replaces:
            raise ValueError(
                f"{what}: name: a built-in profile has it; say `replaces: [{entry.name}]` if that is meant"
            )
        for other in theirs.values():
            shared = sorted(profile.series & other.series)
            if shared and other.name not in entry.replaces:
                hint = f"say `replaces: [{other.name}]` if that is meant"
                raise ValueError(f"{what}: readings: {shared[0]} is a series of the built-in {other.name}; {hint}")
