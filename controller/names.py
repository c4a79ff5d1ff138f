"""Every name that others rely on: the API group, its kinds, and the words that stand in status and events."""

from enum import StrEnum

GROUP = "runtime.ialab.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

GPU_NODE = "GpuNode"
GPU_NODES = "gpunodes"
RUNTIME_TOPOLOGY = "RuntimeTopology"
RUNTIME_TOPOLOGIES = "runtimetopologies"

DEFAULT_TOPOLOGY = "cluster"
"""The RuntimeTopology that the operator creates where none exists."""

FIELD_MANAGER = "gpu-topology"
"""The one writer of both kinds' status, and the component that posts events."""


class Condition(StrEnum):
    """The condition types in status, each in the kind or kinds that carry it."""

    READY = "Ready"
    """Both kinds: the status was judged from current data."""
    ONLINE = "Online"
    """GpuNode: the card can serve."""
    TARGET_MATCHED = "TargetMatched"
    """GpuNode: at least one scrape target speaks for the card."""
    DEGRADED = "Degraded"
    """RuntimeTopology: the degradation level is above 0."""
    SOURCE_AVAILABLE = "SourceAvailable"
    """RuntimeTopology: Prometheus answers, and the answer can be believed."""
    SERVICES_HEALTHY = "ServicesHealthy"
    """RuntimeTopology: every service that it names is online."""
    RECONCILING = "Reconciling"
    """RuntimeTopology: a mode change waits for the anti-flapping window, or the first mode for Prometheus."""
    STALLED = "Stalled"
    """RuntimeTopology: no progress is possible; the reason says why."""


class Reason(StrEnum):
    """Why a phase, a condition or a mode is what it is; one word for machines to compare."""

    # A card's phase.
    TARGETS_UP = "TargetsUp"
    TARGET_DOWN = "TargetDown"
    HOST_UNREACHABLE = "HostUnreachable"
    EXPORTER_DOWN = "ExporterDown"
    EXPORTER_BROKEN = "ExporterBroken"
    ACCESS_REFUSED = "AccessRefused"
    SCRAPE_TIMED_OUT = "ScrapeTimedOut"
    METRICS_MISSING = "MetricsMissing"
    TARGET_MISSING = "TargetMissing"
    TARGET_AMBIGUOUS = "TargetAmbiguous"
    CARD_CLAIMED_TWICE = "CardClaimedTwice"
    TARGET_STALE = "TargetStale"
    NOT_SCRAPED_YET = "NotScrapedYet"
    INVALID_SPEC = "InvalidSpec"
    # The source.
    ANSWERING = "Answering"
    CONNECTION_FAILED = "ConnectionFailed"
    TIMED_OUT = "TimedOut"
    HTTP_ERROR = "HttpError"
    INVALID_ANSWER = "InvalidAnswer"
    NO_HEALTH = "NoHealth"
    PARTIAL_ANSWER = "PartialAnswer"
    SCRAPES_STOPPED = "ScrapesStopped"
    TARGETS_VANISHED = "TargetsVanished"
    SCRAPER_CUT_OFF = "ScraperCutOff"
    # Conditions.
    CURRENT = "Current"
    TARGET_FOUND = "TargetFound"
    AWAITING_SOURCE = "AwaitingSource"
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    WINDOW_OPEN = "WindowOpen"
    SETTLED = "Settled"
    NO_SERVICES = "NoServices"
    SERVICES_ONLINE = "ServicesOnline"
    SERVICES_OFFLINE = "ServicesOffline"
    SERVICES_UNKNOWN = "ServicesUnknown"
    # A topology's mode.
    SEVERAL_CARDS_ONLINE = "SeveralCardsOnline"
    ONE_CARD_ONLINE = "OneCardOnline"
    CARDS_OFFLINE = "CardsOffline"
    NO_CARD_ONLINE = "NoCardOnline"


class EventReason(StrEnum):
    """What an event on an object is about."""

    PHASE_CHANGED = "PhaseChanged"
    MODE_CHANGED = "ModeChanged"
