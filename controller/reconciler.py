"""The one loop: gather, decide, apply."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from controller import names
from controller.decisions import decide
from controller.facts import (
    Decision,
    Event,
    GpuNode,
    Instant,
    Memory,
    NodeChange,
    Policy,
    RuntimeTopology,
    TopologyChange,
    World,
)
from controller.kube import ApiUnavailableError, Kube
from controller.prometheus import Prometheus

logger = logging.getLogger(__name__)

QUIET_SECONDS = 0.25
"""How long no further edit must come before a burst of edits is taken in as one."""
BURST_SECONDS = 0.7
"""How long a burst may go on before it is taken in anyway."""
RELIST_SECONDS = 30.0
"""How often everything is listed even though no watch has shown a change."""
WRITES_IN_FLIGHT = 32


def read_clocks() -> Instant:
    """Return this moment."""
    return Instant(datetime.now(UTC), time.monotonic())


class Reconciler:
    """Passes, one at a time: at each poll, when time changes the outcome, and soon after it is woken."""

    def __init__(
        self,
        kube: Kube,
        prometheus: Prometheus,
        policy: Policy,
        poll_seconds: float,
        clocks: Callable[[], Instant] = read_clocks,
    ) -> None:
        self._kube, self._prometheus = kube, prometheus
        self._policy, self._poll, self._clocks = policy, poll_seconds, clocks
        self._memory = Memory()
        self._wake = asyncio.Event()
        self._listed = float("-inf")
        self._said = ""
        self._events: asyncio.Queue[tuple[str, GpuNode | RuntimeTopology, Event]] = asyncio.Queue(maxsize=10_000)

    def wake(self) -> None:
        """Ask for a pass within a second."""
        self._wake.set()

    async def run(self) -> None:
        """Pass for ever; what ends this is a bug, and must end the process."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._post_events(), name="events")
            while True:
                started = time.monotonic()
                look_again = await self.step()
                await self._rest(max(started + look_again - time.monotonic(), 0))

    async def step(self) -> float:
        """Make one pass; return the seconds from its start to the next one."""
        self._wake.clear()
        try:
            world = await self._gather()
            decision = decide(world, self._memory, self._clocks(), self._policy)
            self._memory = decision.memory
            complete = await self._apply(decision)
        except ApiUnavailableError as error:
            self._say(str(error))
            self._kube.distrust()
            return self._poll
        if complete:
            self._say("")
        return min(self._poll, self._poll if decision.look_again is None else decision.look_again + 0.01)

    async def _gather(self) -> World:
        if self._clocks().mono - self._listed >= RELIST_SECONDS:
            self._kube.distrust()
            self._listed = self._clocks().mono
        nodes, topologies, observation = await asyncio.gather(
            self._kube.nodes(), self._kube.topologies(), self._prometheus.survey()
        )
        return World(nodes, topologies, observation)

    async def _apply(self, decision: Decision) -> bool:
        """Write the changes, topologies first, for one poll period at most: what is left is decided afresh."""
        if decision.create_default:
            await self._kube.create_default_topology()
            self.wake()
        changes: Iterator[TopologyChange | NodeChange] = iter((*decision.topologies, *decision.nodes))
        deadline = time.monotonic() + self._poll
        failures: list[str] = []

        async def work() -> None:
            for change in changes:
                if time.monotonic() > deadline:
                    self.wake()
                    return
                target: GpuNode | RuntimeTopology
                if isinstance(change, NodeChange):
                    kind, plural, target = names.GPU_NODE, names.GPU_NODES, change.node
                else:
                    kind, plural, target = names.RUNTIME_TOPOLOGY, names.RUNTIME_TOPOLOGIES, change.topology
                try:
                    await self._kube.write(plural, target.name, change.status)
                except ApiUnavailableError as error:
                    failures.append(str(error))
                    continue
                if change.event:
                    self._announce(kind, target, change.event)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(WRITES_IN_FLIGHT, len(decision.nodes) + len(decision.topologies))):
                workers.create_task(work())
        if failures:
            self._say(failures[0] + (f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""))
            self.wake()
        return not failures

    def _announce(self, kind: str, target: GpuNode | RuntimeTopology, event: Event) -> None:
        logger.log(logging.WARNING if event.warning else logging.INFO, "%s %s: %s", kind, target.name, event.message)
        try:
            self._events.put_nowait((kind, target, event))
        except asyncio.QueueFull:
            logger.warning("Dropped an event on %s %s, because too many wait", kind, target.name)

    async def _post_events(self) -> None:
        """Post events beside the passes: a slow or refused one never holds up a status."""
        while True:
            kind, target, event = await self._events.get()
            try:
                await self._kube.post(kind, target, event, self._clocks())
            except ApiUnavailableError as error:
                logger.warning("%s", error)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        burst = time.monotonic() + BURST_SECONDS
        while (left := burst - time.monotonic()) > 0:
            self._wake.clear()
            try:
                async with asyncio.timeout(min(QUIET_SECONDS, left)):
                    await self._wake.wait()
            except TimeoutError:
                return

    def _say(self, trouble: str) -> None:
        """Log trouble with the API server once, and its end."""
        if trouble and trouble != self._said:
            logger.warning("%s", trouble)
        elif self._said and not trouble:
            logger.info("The API server takes requests again")
        self._said = trouble
