"""The shape of a profile: how an exporter is recognised, and what its series say of a card."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One way to get at a reading."""

    series: str
    scale: float = 1
    """What a value is multiplied by to get the field's unit."""
    where: Mapping[str, str] = field(default_factory=dict)
    """The labels that the series must have; an empty value asks that the label be absent."""
    missing: tuple[float, ...] = ()
    """The exporter's values that mean "not known", before they are scaled."""
    plus: tuple[str, ...] = ()
    """Series to add up with this one, by equal labels; where one of them is absent, there is no reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """A series whose labels say more of a card than the series of its readings do."""

    series: str
    on: tuple[str, ...]
    """The labels that both have in common."""
    where: Mapping[str, str] = field(default_factory=dict)
    required: bool = False
    """What has no such series beside it is no card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The labels that tell the cards of a host apart, in the order in which they are looked at."""

    uuid: tuple[str, ...] = ()
    pci: tuple[str, ...] = ()
    """The last PCI address in the label counts: hwmon writes that of the parent before it."""
    index: tuple[str, ...] = ()
    model: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """An exporter as it is in the field."""

    name: str
    title: str = ""
    readings: Mapping[str, tuple[Source, ...]]
    """By field of `Readings`, and `gpu_memory_total_gb`; of several sources the first that says something counts."""
    fingerprint: tuple[str, ...]
    """A target that shows one of these series is such an exporter."""
    absent: tuple[str, ...] = ()
    """A target that shows one of these series is not."""
    success: str = ""
    """A series that is 0 while the exporter collects nothing: what it still shows is then no card."""
    info: Info | None = None
    identity: Identity = Identity()
    note: str = ""
    """What a person should know before relying on it."""

    @property
    def series(self) -> frozenset[str]:
        """Return the names of the series that speak of cards."""
        sources = (source for several in self.readings.values() for source in several)
        names = {name for source in sources for name in (source.series, *source.plus)}
        return frozenset(names | {*self.fingerprint} | ({self.info.series} if self.info else set()))

    @property
    def needs(self) -> frozenset[str]:
        """Return the names of all series that must be asked for."""
        return self.series | {*self.absent} | ({self.success} if self.success else set())
