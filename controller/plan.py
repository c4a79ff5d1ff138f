"""`gpu-topology plan`: the topology of declared cards, with no cluster at all."""

import asyncio
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime

from controller import manifests, names, resources, views
from controller.decisions import decide
from controller.facts import (
    Instant,
    Memory,
    Observation,
    Policy,
    RuntimeTopology,
    RuntimeTopologySpec,
    SourceFailure,
    World,
)
from controller.prometheus import Prometheus
from controller.settings import Settings


class Plan:
    """Declared cards and their topology, judged as the operator judges them."""

    def __init__(self, declared: manifests.Declared, policy: Policy) -> None:
        self.nodes = declared.nodes
        name = names.DEFAULT_TOPOLOGY
        default = RuntimeTopology(name=name, uid=name, generation=1, spec=RuntimeTopologySpec())
        self.topology = next((one for one in declared.topologies if one.name == name), default)
        self._policy, self._memory = policy, Memory()

    def take_in(self, observation: Observation, now: Instant) -> float | None:
        """Judge by what Prometheus shows; return in how many seconds time alone changes the outcome."""
        decision = decide(World(self.nodes, (self.topology,), observation), self._memory, now, self._policy)
        self._memory = decision.memory
        judged = {change.node.name: change.status for change in decision.nodes}
        self.nodes = tuple(replace(node, status=judged.get(node.name, node.status)) for node in self.nodes)
        for change in decision.topologies:
            self.topology = replace(self.topology, status=change.status)
        return decision.look_again

    def show(self, output: str) -> str:
        """Return the topology in one of the views' outputs; empty where there is nothing to show yet."""
        topology = self.topology
        # A plan vouches for nothing: it may end at any time.
        status = topology.status and replace(topology.status, observed_at=None, valid_for_seconds=None)
        resource = {
            "apiVersion": names.API_VERSION,
            "kind": names.RUNTIME_TOPOLOGY,
            "metadata": {"name": topology.name},
            "spec": resources.TOPOLOGY_SPEC.dump_python(topology.spec, mode="json", by_alias=True, exclude_none=True),
            "status": resources.dump_status(status) if status else {},
        }
        return views.show(output, self.nodes, topology.status, resource, colour=views.colours(sys.stdout))


async def run(plan: Plan, settings: Settings, output: str, *, watch: bool) -> bool:
    """Print the topology, and with `watch` print it again at each change for ever; tell whether Prometheus answered."""
    printed = said = ""
    async with Prometheus(settings.source, settings.timeout_seconds, settings.series) as prometheus:
        while True:
            observation = await prometheus.survey()
            look_again = plan.take_in(observation, Instant(datetime.now(UTC), time.monotonic()))
            trouble = observation.message if isinstance(observation, SourceFailure) else ""
            if trouble and trouble != said:
                print(f"gpu-topology: {trouble}", file=sys.stderr)
            said = trouble
            shown = plan.show(output)
            if shown != printed and plan.topology.status and plan.topology.status.mode:
                print(shown, flush=True)
                printed = shown
            if not watch:
                return not trouble
            await asyncio.sleep(min(settings.poll_seconds, look_again or settings.poll_seconds))
