"""What Prometheus and its relatives answer, translated to facts: the parts that count here, whatever else there is."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError
from pydantic.alias_generators import to_camel

from controller.facts import Sample, Target, TargetHealth
from controller.matching import normal_host
from controller.replicas import scraped_at
from controller.texts import bounded

UP = "up"
"""The series that Prometheus itself writes of each scrape, for what has no targets API."""

_HEALTH_OF_UP: Mapping[float, TargetHealth] = {1: TargetHealth.UP, 0: TargetHealth.DOWN}
_EXCERPT = 300
_DEFAULT_PORTS = {"http": 80, "https": 443}
_DEFAULT_SCRAPE_SECONDS = 60.0  # Prometheus' own default
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdwy])")
_USERINFO = re.compile(r"(?<=://)[^/\s\"']*@")
_SECRET = re.compile(r"([?&;][^=&\s\"']*(?:token|key|pass|secret|auth|sig)[^=&\s\"']*=)[^&;\s\"']+", re.IGNORECASE)

Labels = Mapping[str, str]
_Kind = TypeVar("_Kind", bound="_Answer")


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class _Answer(_Part):
    status: Literal["success"]
    is_partial: bool | None = None
    warnings: list[str] | None = None

    def lack(self) -> str:
        """Say what the answer says that it lacks: Thanos warns, VictoriaMetrics has a flag."""
        return "isPartial is set" if self.is_partial else bounded("; ".join(self.warnings or ()), _EXCERPT)


class _Discovered(BaseModel):
    """What can say on which host a target is, and how often it is scraped; the rest, by far the most, is not kept."""

    interval: str = Field(default="", alias="__scrape_interval__", exclude=True)
    address: str = Field(default="", alias="__address__")
    pod_node: str = Field(default="", alias="__meta_kubernetes_pod_node_name")
    node: str = Field(default="", alias="__meta_kubernetes_node_name")


class _ActiveTarget(_Part):
    scrape_url: str
    labels: dict[str, str]
    health: TargetHealth
    last_error: str = ""
    last_scrape: str = ""
    scrape_interval: str = ""
    global_url: str | None = None
    discovered_labels: _Discovered | None = None

    def target(self) -> Target:
        host, port = _address(self.scrape_url)
        discovered = self.discovered_labels or _Discovered()
        last_scrape, health = self.last_scrape, self.health
        if (
            last_scrape and scraped_at(last_scrape) <= 0
        ):  # Go's zero time, or vmagent's, whose new targets are down without an error
            last_scrape = ""
            health = TargetHealth.UNKNOWN if health is TargetHealth.DOWN and not self.last_error else health
        return Target(
            scrape_url=redacted(self.scrape_url),
            host=host,
            port=port,
            labels=self.labels,
            health=health,
            last_error=bounded(redacted(self.last_error), _EXCERPT),
            last_scrape=last_scrape,
            scrape_seconds=_seconds(self.scrape_interval) or _seconds(discovered.interval) or _DEFAULT_SCRAPE_SECONDS,
            discovered=discovered.model_dump(by_alias=True, exclude_defaults=True),
        )


class _Targets(_Part):
    active_targets: Annotated[list[_ActiveTarget], FailFast()]


class TargetsAnswer(_Answer):
    """The answer to api/v1/targets."""

    data: _Targets

    def targets(self) -> list[Target]:
        """Return the active targets."""
        return [entry.target() for entry in self.data.active_targets]

    def is_doubtful(self) -> bool:
        """Tell whether `up` knows more: no target is shown at all, or they look like those of Thanos.

        Where Thanos merges the copies of a target, being down wins over being up; and it knows the targets of sidecars
        only. Its targets have no interval, but unlike vmagent's a global URL.
        """
        entries = self.data.active_targets
        return not entries or any(entry.global_url and not entry.scrape_interval for entry in entries)


class _Entry(_Part):
    metric: dict[str, str]
    value: tuple[float, float] | None = None


class _Series(_Part):
    result_type: Literal["vector"]
    result: Annotated[list[_Entry], FailFast()]


class QueryAnswer(_Answer):
    """The answer to api/v1/query."""

    data: _Series

    def samples(self) -> Iterable[Sample]:
        """Return what has a value; what has none is a native histogram."""
        for entry in self.data.result:
            if entry.value:
                yield Sample(entry.metric.get("__name__", ""), entry.metric, entry.value[1])


class FaultError(Exception):
    """An answer has another shape; the text says where."""


def parse(kind: type[_Kind], body: bytearray) -> _Kind:
    """Read a body; raise FaultError."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        begins = bounded(body[: 4 * _EXCERPT].decode(errors="replace"), _EXCERPT)
        quoted = bounded(repr(begins), _EXCERPT + 2)  # in which a quote takes two characters
        raise FaultError(f"{where and where + ': '}{fault['msg']}; it begins with {quoted}") from None


def targets_of_up(up: Iterable[Sample], scrapes: Iterable[Sample], known: Iterable[Target]) -> list[Target]:
    """Make targets of the series `up` and of the times at which these were written.

    A target that is known from a targets API keeps its address, otherwise the label `instance` is its address.
    """
    written = {_identity(sample.labels): repr(sample.value) for sample in scrapes}
    before = {scrape(target.labels): target for target in known}
    return [
        (before.get(scrape(sample.labels)) or _target_at(sample.labels.get("instance", "")))._replace(
            labels={name: value for name, value in sample.labels.items() if name != "__name__"},
            health=_HEALTH_OF_UP.get(sample.value, TargetHealth.UNKNOWN),
            last_error="",
            last_scrape=written.get(_identity(sample.labels), ""),
        )
        for sample in up
    ]


def _target_at(instance: str) -> Target:
    host, port = _address(instance if "://" in instance else f"//{instance}")
    return Target(redacted(instance), host, port, {}, TargetHealth.UNKNOWN, "", scrape_seconds=_DEFAULT_SCRAPE_SECONDS)


def scrape(labels: Labels) -> tuple[str, str]:
    """Return the two labels that Prometheus gives to everything it scrapes."""
    return labels.get("job", ""), labels.get("instance", "")


def redacted(text: str) -> str:
    """Return a text without the user names, passwords and tokens of the URLs in it."""
    if "@" in text or "=" in text:
        return _SECRET.sub(r"\1***", _USERINFO.sub("", text))
    return text


def _identity(labels: Labels) -> frozenset[tuple[str, str]]:
    return frozenset(item for item in labels.items() if item[0] != "__name__")


@lru_cache(maxsize=1 << 16)
def _address(url: str) -> tuple[str, int]:
    """Return the host and port of a scrape URL; none where it is no URL, as a foreign target's mistyped address."""
    try:
        parts = urlsplit(url)
        return normal_host(parts.hostname or ""), parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError:
        return "", 0


@lru_cache(maxsize=1 << 8)
def _seconds(duration: str) -> float:
    """Read a duration as Prometheus writes it, such as 1m30s; 0 where there is none."""
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(duration))
