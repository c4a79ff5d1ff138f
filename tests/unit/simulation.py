"""A fleet in virtual time: decide() passes over it, and its objects keep what the API server would keep."""

import itertools
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from controller import resources
from controller.decisions import decide
from controller.facts import (
    Decision,
    GpuNodeStatus,
    Instant,
    Memory,
    Policy,
    RuntimeTopologyStatus,
    Sample,
    SourceFailure,
    Survey,
    Target,
    TargetHealth,
    World,
)
from controller.names import DEFAULT_TOPOLOGY, Reason
from controller.profiles import built_in

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Sight(Enum):
    """What Prometheus shows of a card, and in which health its target is."""

    UP = "up with series", TargetHealth.UP
    BARE = "up without series", TargetHealth.UP
    DOWN = "down", TargetHealth.DOWN
    WAITING = "not scraped yet", TargetHealth.UNKNOWN
    ABSENT = "no target", None


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass was given, and what it decided, as far as the API server took it."""

    time: float
    """Seconds since the simulation's start, on a clock that neither jumps nor starts anew."""
    world: World
    memory: Memory
    now: Instant
    decision: Decision


class Simulation:
    """Cards named like their hosts, what Prometheus shows of them, and the operator's passes, one at a time."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy(profiles=built_in())
        self.time = self.jumped = self.born = 0.0
        self.nodes: dict[str, dict[str, Any]] = {}
        self.topologies: dict[str, dict[str, Any]] = {}
        self.sights: dict[str, Sight] = {}
        self.temperatures: dict[str, float] = {}
        self.errors: dict[str, str] = {}
        self.failure: SourceFailure | None = None
        self.refused: set[str] = set()
        self.memory = Memory()
        self.passes: list[Pass] = []
        self._uids = itertools.count()

    # ---- what people do

    def declare(self, name: str, **spec: object) -> None:
        """Create a card or edit its spec; what is not given is as good as new."""
        self._put(self.nodes, name, {"host": name, "vramGb": 16, **spec})

    def delete(self, name: str) -> None:
        self.nodes.pop(name, None)

    def declare_topology(self, name: str = DEFAULT_TOPOLOGY, *, window: int = 30, **spec: object) -> None:
        """Create a topology or edit its spec; what is not given is as good as new."""
        self._put(self.topologies, name, {"stabilizationSeconds": window, **spec})

    def delete_topology(self, name: str = DEFAULT_TOPOLOGY) -> None:
        self.topologies.pop(name, None)

    # ---- what happens

    def show(self, name: str, sight: Sight) -> None:
        """Let Prometheus see a host that way from now on."""
        self.sights[name] = sight

    def fail(self, reason: Reason = Reason.CONNECTION_FAILED, message: str = "refused") -> None:
        self.failure = SourceFailure(reason, message)

    def recover(self) -> None:
        self.failure = None

    def jump(self, seconds: float) -> None:
        """Let the wall clock jump, and no other."""
        self.jumped += seconds

    def restart(self) -> None:
        """Start the operator anew: no memory, and another origin of the monotonic clock."""
        self.memory, self.born = Memory(), self.time

    def refuse(self, names: set[str]) -> None:
        """Let the API server take no status of these objects from now on, and of all others again."""
        self.refused = names

    # ---- passes

    def run(self, seconds: float = 0) -> None:
        """Let time pass: a pass now, one wherever the last one asked for it, and one at the end."""
        end = self.time + seconds
        again = self.pass_().look_again
        while again is not None and self.time + again < end:
            self.time += again
            again = self.pass_().look_again
        if self.time < end:
            self.time = end
            self.pass_()

    def pass_(self) -> Decision:
        """Decide about the world as it is now, and keep what is to be written."""
        world, memory, now = self.world(), self.memory, self.now()
        decision = decide(world, memory, now, self.policy)
        assert decision.look_again is None or decision.look_again > 0
        self.memory = decision.memory
        decision = replace(
            decision,
            nodes=tuple(change for change in decision.nodes if change.node.name not in self.refused),
            topologies=tuple(change for change in decision.topologies if change.topology.name not in self.refused),
        )
        self.passes.append(Pass(self.time, world, memory, now, decision))
        for node in decision.nodes:
            self.nodes[node.node.name]["status"] = json.loads(json.dumps(resources.dump_status(node.status)))
            assert self.card(node.node.name) == node.status
        for topology in decision.topologies:
            self.topologies[topology.topology.name]["status"] = json.loads(
                json.dumps(resources.dump_status(topology.status))
            )
            assert self.topology(topology.topology.name) == topology.status
        if decision.create_default:
            self.declare_topology()
        return decision

    # ---- what is there

    def now(self) -> Instant:
        return Instant(START + timedelta(seconds=self.time + self.jumped), self.time - self.born)

    def world(self) -> World:
        """Read all objects, and ask Prometheus."""
        return World(
            tuple(resources.parse_node(self.nodes[name]) for name in sorted(self.nodes)),
            tuple(resources.parse_topology(self.topologies[name]) for name in sorted(self.topologies)),
            self.failure or self._survey(),
        )

    def card(self, name: str) -> GpuNodeStatus:
        status = resources.parse_node(self.nodes[name]).status
        assert status
        return status

    def topology(self, name: str = DEFAULT_TOPOLOGY) -> RuntimeTopologyStatus:
        status = resources.parse_topology(self.topologies[name]).status
        assert status
        return status

    def _put(self, shelf: dict[str, dict[str, Any]], name: str, spec: dict[str, Any]) -> None:
        old = shelf.get(name) or {"metadata": {"name": name, "uid": f"uid-{next(self._uids)}", "generation": 0}}
        if old.get("spec") != spec:
            generation = old["metadata"]["generation"] + 1
            shelf[name] = {**old, "metadata": {**old["metadata"], "generation": generation}, "spec": spec}

    def _survey(self) -> Survey:
        targets, samples = [], []
        for host, sight in self.sights.items():
            labels, health = {"job": "gpu", "instance": f"{host}:9182"}, sight.value[1]
            if health:
                error = self.errors.get(host, "refused") if sight is Sight.DOWN else ""
                targets.append(Target(f"http://{host}:9182/metrics", host, 9182, labels, health, error))
            if sight is Sight.UP:
                samples.append(Sample("gpu_temp_c", labels, self.temperatures.get(host, 40)))
        return Survey(tuple(targets), tuple(samples))
