"""One pass' decision: from facts and one moment to the changes that are wanted, and when to look again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TypeVar

from controller import cards, conditions, matching, readings, topologies, trust
from controller.facts import (
    ConditionStatus,
    Decision,
    Event,
    GpuNode,
    GpuNodeStatus,
    Instant,
    Memory,
    NodeChange,
    Observation,
    Phase,
    Policy,
    RuntimeTopology,
    RuntimeTopologyStatus,
    Survey,
    Target,
    TopologyChange,
    Trust,
    World,
)
from controller.names import Condition, EventReason
from controller.stopwatch import Stopwatch

Status = TypeVar("Status", GpuNodeStatus, RuntimeTopologyStatus)


def decide(world: World, memory: Memory, now: Instant, policy: Policy) -> Decision:
    """Judge every card, then every topology over the cards as judged; want written only what has changed.

    Facts alone decide: memory makes durations exact and writes rare, but a decision without it is right as well.
    """
    watch = Stopwatch(memory.marks, now)
    hosts = {matching.normal_host(node.spec.host) for node in world.nodes if node.spec}
    # A card that was found by a label has its targets on a host that it does not name.
    hosts |= {
        matching.split_address(target.scrape_url)[0]
        for node in world.nodes
        if node.status
        for target in node.status.targets
    }
    before = memory.trust or _remembered(world.topologies, watch, now)
    observation, trusted = trust.weigh(world.observation, before, hosts, now.mono)
    seen = _look(world.nodes, observation, policy) if isinstance(observation, Survey) else observation
    at_services = _at_services(world.topologies, observation, policy)
    recovered_seconds = inf if trusted.recovered_at is None else now.mono - trusted.recovered_at
    view = cards.View(seen, policy, watch, recovered_seconds, at_services=at_services)
    if isinstance(observation, Survey):
        view = replace(view, queryable=observation.queryable, source=observation.source)
    written: dict[str, float] = {}
    suspects, soon = dict[str, float](), list[float]()

    def due(uid: str) -> bool:
        last = memory.written.get(uid)
        if last is not None:
            written[uid] = last
        return last is None or now.mono - last >= policy.telemetry_seconds

    judged, node_changes = [], []
    for node in world.nodes:
        suspect_since = memory.suspects.get(node.uid, now.mono)
        card = cards.assess(node, view, suspected_seconds=now.mono - suspect_since)
        if card.suspect:
            suspects[node.uid] = suspect_since
        if card.look_again is not None:
            soon.append(card.look_again)
        status = _choose(node.status, card.status, cards.quiet, cards.drifted, due=due(node.uid))
        judged.append(replace(node, status=status))
        if status != node.status:
            written[node.uid] = now.mono
            node_changes.append(NodeChange(node, status, _phase_event(node, status)))

    topology_changes = []
    for topology in world.topologies:
        outlook = topologies.assess(topology, judged, view)
        published, lease_seconds = _publish(topology, outlook.status, view, due=due(topology.uid))
        soon.append(min(lease_seconds, inf if outlook.look_again is None else outlook.look_again))
        if published != topology.status:
            written[topology.uid] = now.mono
            topology_changes.append(TopologyChange(topology, published, _mode_event(topology, published)))

    return Decision(
        nodes=tuple(node_changes),
        topologies=tuple(topology_changes),
        create_default=not world.topologies,
        look_again=min(soon, default=None),
        memory=Memory(watch.marks, written, suspects, trusted),
    )


def _look(nodes: Sequence[GpuNode], survey: Survey, policy: Policy) -> Mapping[str, matching.Finding]:
    samples = readings.recognise(survey.samples, policy.profiles)
    return matching.look(nodes, replace(survey, samples=samples), policy)


def _at_services(
    topologies: Iterable[RuntimeTopology], observation: Observation, policy: Policy
) -> Mapping[tuple[str, int], Sequence[Target]]:
    wanted = {(service.host, service.port) for one in topologies for service in one.spec.services or ()}
    return matching.at(wanted, observation, policy) if wanted and isinstance(observation, Survey) else {}


def _remembered(topologies: Iterable[RuntimeTopology], watch: Stopwatch, now: Instant) -> Trust:
    """Read back after a restart whether Prometheus was away, and since when it is not."""
    recovered_at = inf
    for topology in topologies:
        source = topology.status and conditions.find(topology.status.conditions, Condition.SOURCE_AVAILABLE)
        if source and source.status is ConditionStatus.TRUE:
            seconds = watch.seconds_since(topology.uid, "source", source.last_transition_time)
            recovered_at = min(recovered_at, now.mono - seconds)
        elif source:
            return Trust(failed=True)
    return Trust(recovered_at=None if recovered_at == inf else recovered_at)


def _choose(
    last: Status | None,
    fresh: Status,
    quiet: Callable[[Status, Status], Status],
    drifted: Callable[[Status, Status], bool],
    *,
    due: bool,
) -> Status:
    """Keep the last status, unless something of substance has changed, or what moves at each scrape is due."""
    if last is None or quiet(last, fresh) != last:
        return fresh
    return fresh if due and drifted(last, fresh) else last


def _publish(
    topology: RuntimeTopology, fresh: RuntimeTopologyStatus, view: cards.View, *, due: bool
) -> tuple[RuntimeTopologyStatus, float]:
    """Return the status to have, and in how many seconds its lease is to be renewed; each write renews it as well."""
    seconds = topologies.lease_seconds(topology, view)
    if seconds > 0:
        fresh = _choose(topology.status, fresh, topologies.quiet, topologies.drifted, due=due)
        if fresh is topology.status:
            return fresh, seconds
    return fresh, topologies.renew(topology, fresh, view)


def _phase_event(node: GpuNode, status: GpuNodeStatus) -> Event | None:
    """Tell of a change; a first judgement changes nothing."""
    if node.status is None or node.status.phase is status.phase:
        return None
    return Event(
        EventReason.PHASE_CHANGED,
        f"Phase changed from {node.status.phase} to {status.phase} ({status.reason}): {status.message}",
        warning=status.phase in {Phase.UNEXPECTED_DOWN, Phase.UNKNOWN},
    )


def _mode_event(topology: RuntimeTopology, status: RuntimeTopologyStatus) -> Event | None:
    before = topology.status.mode if topology.status else None
    if status.mode is None or status.mode is before or status.degradation is None:
        return None
    degradation = status.degradation
    changed = f"Mode changed from {before} to {status.mode}" if before else f"Mode started as {status.mode}"
    return Event(
        EventReason.MODE_CHANGED,
        f"{changed}, degradation {degradation.name} {degradation.level}: {topologies.describe(status)}",
        warning=degradation.level > 0,
    )
