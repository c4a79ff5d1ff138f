"""The facts: what is declared, what Prometheus shows, what status says, and at which moment.

Frozen data without behaviour worth a test. The two custom resources stand here once, in snake case; `resources`
reads and writes them in the camel case of the API. Bounds are those of the CRDs.
"""

import dataclasses
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, NamedTuple

from annotated_types import Ge, Le, MaxLen, MinLen

from controller import names
from controller.exporters import Profile

Label = Annotated[str, MaxLen(1024)]
Labels = Annotated[Mapping[str, Label], MaxLen(16)]
Port = Annotated[int, Ge(1), Le(65535)]
Host = Annotated[str, MinLen(1), MaxLen(253)]


class Health(StrEnum):
    """What Prometheus shows of a card."""

    ONLINE = "online"
    OFFLINE = "offline"
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """What a card is judged to be: its health, and whether being off is planned."""

    ONLINE = "online"
    EXPECTED_OFFLINE = "expected_offline"
    UNEXPECTED_DOWN = "unexpected_down"
    UNKNOWN = "unknown"


class Mode(StrEnum):
    """How the runtime can serve, following from the phases of its cards."""

    MULTI_GPU = "multi_gpu"
    SINGLE_GPU = "single_gpu"
    DEGRADED_SINGLE_GPU = "degraded_single_gpu"
    INVENTORY_ONLY = "inventory_only"


class Directive(StrEnum):
    """What a router is told to do in a mode."""

    FULL_ROUTING = "full_routing"
    FORCE_LLAMA = "force_llama"
    PROTECT_QWEN = "protect_qwen"
    BLOCK_HEAVY_ROUTES = "block_heavy_routes"


class DegradationName(StrEnum):
    """The degradation level as a word."""

    NORMAL = "NORMAL"
    LIGHT = "LIGHT"
    HEAVY = "HEAVY"


class TargetHealth(StrEnum):
    """The health of a scrape target in Prometheus' own words."""

    UP = "up"
    DOWN = "down"
    UNKNOWN = "unknown"


class Operator(StrEnum):
    """How a label is held against values, as Kubernetes spells it."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class ConditionStatus(StrEnum):
    """Whether a condition holds, as Kubernetes spells it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Instant(NamedTuple):
    """One moment on two clocks: stamps are read off the wall, durations are measured on the monotonic one."""

    wall: datetime
    """Aware, in UTC; may jump either way between two instants."""
    mono: float
    """Seconds since some fixed point; never goes back within a process."""


# ---- what Prometheus shows


class Target(NamedTuple):
    """One active scrape target."""

    scrape_url: str
    host: str
    """The scrape URL's host in the one spelling that `matching` compares."""
    port: int
    labels: Mapping[str, str]
    health: TargetHealth
    last_error: str
    last_scrape: str = ""
    """When it was scraped, as Prometheus writes it, to be compared with itself only; empty where it does not say."""
    scrape_seconds: float = 60
    """How often it is scraped; Prometheus' own default where it does not say."""
    stale: bool = False
    """It has not been scraped for several intervals: what is known of it is old."""
    discovered: Mapping[str, str] = {}
    """The labels from before relabelling that can say on which host it is, where Prometheus still has them."""


class Sample(NamedTuple):
    """One series' newest value."""

    name: str
    labels: Mapping[str, str]
    value: float
    profile: Profile | None = None
    """The exporter that `readings.recognise` found it to come from; before, and without one, it says nothing."""


@dataclass(frozen=True, slots=True)
class Survey:
    """A valid answer of Prometheus: all active targets, and the series that profiles know."""

    targets: tuple[Target, ...]
    samples: tuple[Sample, ...]
    partial: str = ""
    """What the answer says that it lacks, if it does."""
    queryable: bool = True
    """Whether series can be asked for: not of a Prometheus agent, which keeps none."""
    source: str = ""
    """Where health and readings come from, in a sentence for status and log."""


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """Why Prometheus could not be asked, or its answer cannot be believed."""

    reason: names.Reason
    message: str


Observation = Survey | SourceFailure


# ---- GpuNode


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSelector:
    """Which of the host's targets speak for a card; what is not given is not asked for."""

    ports: Annotated[tuple[Port, ...], MinLen(1), MaxLen(16)] | None = None
    job: Annotated[str, MinLen(1), MaxLen(253)] | None = None
    match_labels: Labels | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSelector:
    """Which series of those targets are a card's: those that carry all that is given."""

    uuid: Annotated[str, MinLen(1), MaxLen(128)] | None = None
    pci_address: Annotated[str, MinLen(1), MaxLen(32)] | None = None
    index: Annotated[int, Ge(0), Le(1023)] | None = None
    model: Annotated[str, MinLen(1), MaxLen(128)] | None = None
    match_labels: Labels | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNodeSpec:
    """A declared card."""

    host: Host
    vram_gb: Annotated[int, Ge(1), Le(16384)]
    model: Annotated[str, MinLen(1), MaxLen(128)] | None = None
    expected_offline: bool = False
    target: TargetSelector = TargetSelector()
    card: CardSelector = CardSelector()


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One entry of `status.conditions`, a metav1.Condition."""

    type: names.Condition
    status: ConditionStatus
    reason: str
    message: str
    last_transition_time: datetime
    observed_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    """One matched target as status shows it."""

    scrape_url: str
    job: str
    health: TargetHealth
    last_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What a card measures; None where it does not say."""

    gpu_temp_c: float | None = None
    gpu_load_pct: float | None = None
    gpu_power_w: float | None = None
    gpu_fan_rpm: float | None = None
    gpu_fan_pct: float | None = None
    """Of the fan's top speed; few exporters have both."""
    gpu_memory_used_gb: float | None = None
    """In units of 2^30 bytes, as makers count a card's memory and `vram_gb` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNodeStatus(Readings):
    """What is judged of a card."""

    observed_generation: int
    model: str | None = None
    """The card's name as people say it; None where an older operator wrote this."""
    phase: Phase
    health: Health
    reason: names.Reason
    message: str
    targets: tuple[TargetStatus, ...] = ()
    last_transition_time: datetime
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNode:
    """A card as the API server has it."""

    name: str
    uid: str
    generation: int
    spec: GpuNodeSpec | None
    """None where the stored spec cannot be read; `problem` then says why."""
    problem: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    status: GpuNodeStatus | None = None
    created: datetime | None = None
    """When the API server took it in; None for a manifest."""

    @property
    def model(self) -> str:
        """The card's name as people say it."""
        return (self.spec and self.spec.model) or self.name


# ---- RuntimeTopology


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """One of a selector's `matchExpressions`."""

    key: Annotated[str, MinLen(1), MaxLen(317)]
    operator: Operator
    values: Annotated[tuple[Annotated[str, MaxLen(63)], ...], MaxLen(32)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """Which objects belong, by their labels; all requirements must hold."""

    match_labels: Annotated[Mapping[str, Annotated[str, MaxLen(63)]], MaxLen(32)] | None = None
    match_expressions: Annotated[tuple[LabelRequirement, ...], MaxLen(32)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """A scrape target beside the cards', such as a gateway's."""

    name: Annotated[str, MinLen(1), MaxLen(63)]
    host: Host
    port: Port


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeTopologySpec:
    """What a person may ask of a topology."""

    selector: LabelSelector | None = None
    """Which cards belong; None for all."""
    stabilization_seconds: Annotated[int, Ge(0), Le(3600)] = 30
    services: Annotated[tuple[ServiceSpec, ...], MaxLen(64)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Degradation:
    """How far the runtime is from its best, and what a router shall do about it."""

    level: Annotated[int, Ge(0), Le(2)]
    name: DegradationName
    directives: tuple[Directive, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEntry:
    """A card in one of a topology's four lists."""

    name: str
    model: str
    host: str | None = None
    vram_gb: int | None = None
    status: Phase
    expected_offline: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveGpu(GpuEntry):
    """A card that is online, with its readings."""

    gpu_temp_c: float | None = None
    gpu_load_pct: float | None = None
    gpu_power_w: float | None = None
    gpu_fan_rpm: float | None = None
    gpu_fan_pct: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many cards there are of each kind, whether their list shows them all or not, and the sum."""

    total: int = 0
    active: int = 0
    inventory: int = 0
    unexpected_down: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One mode change of the past."""

    from_: Mode | None = None
    """None for a topology's first mode."""
    to: Mode
    level: Annotated[int, Ge(0), Le(2)] | None = None
    """The degradation level of `to`; None where an older operator wrote this."""
    at: datetime
    reason: names.Reason
    cards: tuple[str, ...] = ()
    """The names of the cards that made it so, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """A service's health."""

    name: str
    host: str
    port: int
    health: Health
    message: str = ""
    """Why it is not online."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeTopologyStatus:
    """Which cards can serve, and what that means for routing."""

    observed_generation: int
    mode: Mode | None = None
    degradation: Degradation | None = None
    active_gpus: tuple[ActiveGpu, ...] = ()
    inventory_gpus: tuple[GpuEntry, ...] = ()
    unexpected_down: tuple[GpuEntry, ...] = ()
    unknown_gpus: tuple[GpuEntry, ...] = ()
    counts: Counts
    truncated: bool = False
    """A list does not show all of its cards."""
    active_vram_gb: int = 0
    services: tuple[ServiceStatus, ...] = ()
    last_transition_time: datetime | None = None
    """Of the mode."""
    pending_mode: Mode | None = None
    hold_until: datetime | None = None
    pending_cards: tuple[str, ...] = ()
    """The names of the cards that made a change pending, sorted."""
    transitions: tuple[Transition, ...] = ()
    observed_at: datetime | None = None
    """When the operator last vouched for all this."""
    valid_for_seconds: int | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeTopology:
    """A topology as the API server has it."""

    name: str
    uid: str
    generation: int
    spec: RuntimeTopologySpec
    problem: str = ""
    """Why the stored spec cannot be read; `spec` then holds nothing but defaults."""
    status: RuntimeTopologyStatus | None = None


# ---- a pass


@dataclass(frozen=True, slots=True)
class World:
    """All that one pass knows."""

    nodes: tuple[GpuNode, ...]
    topologies: tuple[RuntimeTopology, ...]
    observation: Observation


HOST_LABELS = (
    "host",
    "hostname",
    "Hostname",
    "node",
    "nodename",
    "__meta_kubernetes_pod_node_name",
    "__meta_kubernetes_node_name",
)
"""Labels of a target that people and exporters give the name of its host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The operator's settings as far as rules need them."""

    profiles: tuple[Profile, ...]
    """The known exporters, by falling precedence."""
    target_ports: tuple[int, ...] = (9182, 9183)
    host_labels: tuple[str, ...] = HOST_LABELS
    """Labels of a target whose value is the name of its host."""
    target_missing_seconds: float = 60
    telemetry_seconds: float = 30
    valid_for_seconds: int = 180


TargetKey = tuple[str, str, str]
"""What tells targets apart: job, instance and scrape URL."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What is remembered of the answers before; losing it costs a doubt, never a state."""

    known: AbstractSet[TargetKey] = frozenset()
    """The targets of the last answer that was believed."""
    spoke: AbstractSet[tuple[str, str]] = frozenset()
    """Job and instance of every series in that answer."""
    up_at: Mapping[TargetKey, float] = dataclasses.field(default_factory=dict)
    """When each target was last seen up, on our own monotonic clock."""
    scrapes: Mapping[TargetKey, tuple[str, float]] = dataclasses.field(default_factory=dict)
    """Each target's last scrape, and when it was first seen, on the same clock: machines' clocks differ."""
    doubted_at: float | None = None
    failed: bool = False
    """The last answer was none, or was not believed."""
    recovered_at: float | None = None
    """When the first answer after a failure was believed."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What one pass hands to the next; all of it may be lost without harm, because status says enough."""

    marks: Mapping[tuple[str, str, datetime], float] = dataclasses.field(default_factory=dict)
    """When a stamp in status was made, on the monotonic clock; by object uid, what is stamped, and the stamp."""
    written: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """When an object's readings and texts were last handed out for writing, by uid."""
    suspects: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Since when the series of online cards have been missing without another look that confirms it, by uid."""
    trust: Trust | None = None
    """None before the first pass."""


@dataclass(frozen=True, slots=True)
class Event:
    """What to tell a person about a change of an object."""

    reason: names.EventReason
    message: str
    warning: bool


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A GpuNode's status to write, and what to tell about it once it is written."""

    node: GpuNode
    status: GpuNodeStatus
    event: Event | None


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """A RuntimeTopology's status to write, and what to tell about it once it is written."""

    topology: RuntimeTopology
    status: RuntimeTopologyStatus
    event: Event | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass wants done: nothing but changes."""

    nodes: tuple[NodeChange, ...]
    topologies: tuple[TopologyChange, ...]
    create_default: bool
    """No RuntimeTopology exists: create the one named `cluster`."""
    look_again: float | None
    """Seconds until time alone changes the outcome; None where it does not."""
    memory: Memory
