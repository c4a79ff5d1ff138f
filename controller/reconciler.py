"""The one loop: gather, decide, apply."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime

from controller import names
from controller.board import Board
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
from controller.kube import ApiError, Kube, OutdatedError, RefusedError
from controller.prometheus import Prometheus

logger = logging.getLogger(__name__)

QUIET_SECONDS = 0.25
"""How long no further edit must come before a burst of edits is taken in as one."""
BURST_SECONDS = 0.7
"""How long a burst may go on before it is taken in anyway."""
RELIST_SECONDS = 20.0
"""How often everything is listed even though no watch has shown a change, so that deaf watches cost no more."""
RETRY_SECONDS = (1.0, 5.0)
"""How soon an API server in trouble is asked again, first and, twice as late each time, at the latest."""
WRITES_IN_FLIGHT = 32


def read_clocks() -> Instant:
    """Return this moment, on the wall and on the event loop's clock."""
    return Instant(datetime.now(UTC), asyncio.get_running_loop().time())


class Reconciler:
    """Passes, one at a time: at each poll, when time changes the outcome, and soon after it is woken."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that the loop holds together
        self,
        kube: Kube,
        prometheus: Prometheus,
        policy: Policy,
        poll_seconds: float,
        board: Board,
        clocks: Callable[[], Instant] = read_clocks,
    ) -> None:
        self._kube, self._prometheus = kube, prometheus
        self._policy, self._poll, self._board, self._clocks = policy, poll_seconds, board, clocks
        self._memory = Memory()
        self.in_touch = asyncio.Event()
        """Set while the API server lists both kinds."""
        self._wake = asyncio.Event()
        self._listed = float("-inf")
        self._leave_alone_until = float("-inf")
        self._troubles = 0
        self._events: asyncio.Queue[tuple[str, GpuNode | RuntimeTopology, Event]] = asyncio.Queue(maxsize=10_000)

    def wake(self) -> None:
        """Ask for a pass within a second."""
        self._wake.set()

    async def run(self) -> None:
        """Pass for ever; what ends this is a bug, and must end the process."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._post_events(), name="events")
            while True:
                started = self._clocks().mono
                look_again = await self.step()
                await self._rest(max(started + look_again - self._clocks().mono, 0))

    async def step(self) -> float:
        """Make one pass; return the seconds from its start to the next one."""
        self._wake.clear()
        try:
            world = await self._gather()
            decision = decide(world, self._memory, self._clocks(), self._policy)
            self._memory = decision.memory
            self._show(world, decision)
            await self._apply(decision)
        except ApiError as error:
            self._end_pass(str(error))
            self._kube.distrust()
            self._leave_alone_until = self._clocks().mono + error.retry_after_seconds
            self._troubles += 1
            first, latest = RETRY_SECONDS
            return min(self._poll, latest, first * 2.0 ** min(self._troubles - 1, 10))
        self._troubles = 0
        return min(self._poll, self._poll if decision.look_again is None else decision.look_again + 0.01)

    async def _gather(self) -> World:
        if self._clocks().mono - self._listed >= RELIST_SECONDS:
            self._kube.distrust()
            self._listed = self._clocks().mono
        nodes = asyncio.create_task(self._kube.nodes())
        topologies = asyncio.create_task(self._kube.topologies())
        observation = asyncio.create_task(self._prometheus.survey())
        # Each to its end: an answer that came after the next pass has asked would bring back what is gone.
        outcomes = await asyncio.gather(nodes, topologies, observation, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                self.in_touch.clear()
                raise outcome
        self.in_touch.set()
        return World(nodes.result(), topologies.result(), observation.result())

    async def _apply(self, decision: Decision) -> None:
        """Write the changes, topologies first, for one poll period at most: what is left is decided afresh."""
        attempts = _Attempts(self.wake)
        if decision.create_default and await attempts.make(self._kube.create_default_topology()):
            self.wake()  # its first status does not wait for those of a thousand cards
            self._end_pass("")
            return
        changes: Iterator[TopologyChange | NodeChange] = iter((*decision.topologies, *decision.nodes))
        deadline = self._clocks().mono + self._poll

        async def work() -> None:
            for change in changes:
                if self._clocks().mono > deadline:
                    self.wake()
                    return
                if attempts.trouble:
                    return
                await self._write(change, attempts)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(WRITES_IN_FLIGHT, len(decision.nodes) + len(decision.topologies))):
                workers.create_task(work())
        if attempts.trouble:
            raise attempts.trouble
        more = f" (and {len(attempts.refused) - 1} more)" if len(attempts.refused) > 1 else ""
        self._end_pass(f"{attempts.refused[0]}{more}" if attempts.refused else "")

    async def _write(self, change: TopologyChange | NodeChange, attempts: "_Attempts") -> None:
        target: GpuNode | RuntimeTopology
        if isinstance(change, NodeChange):
            kind, plural, target = names.GPU_NODE, names.GPU_NODES, change.node
        else:
            kind, plural, target = names.RUNTIME_TOPOLOGY, names.RUNTIME_TOPOLOGIES, change.topology
        if await attempts.make(self._kube.write(plural, target.name, change.status)) and change.event:
            self._announce(kind, target, change.event)

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
            except ApiError as error:
                logger.warning("%s", error)

    async def _rest(self, seconds: float) -> None:
        await asyncio.sleep(max(self._leave_alone_until - self._clocks().mono, 0))
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        burst = self._clocks().mono + BURST_SECONDS
        while (left := burst - self._clocks().mono) > 0:
            self._wake.clear()
            try:
                async with asyncio.timeout(min(QUIET_SECONDS, left)):
                    await self._wake.wait()
            except TimeoutError:
                return

    def _show(self, world: World, decision: Decision) -> None:
        statuses = {topology.name: topology.status for topology in world.topologies}
        statuses |= {change.topology.name: change.status for change in decision.topologies}
        self._board.show({name: status for name, status in statuses.items() if status})

    def _end_pass(self, trouble: str) -> None:
        """Log trouble with the API server once, and its end."""
        if trouble and trouble != self._board.trouble:
            logger.warning("%s", trouble)
        elif self._board.trouble and not trouble:
            logger.info("The API server takes requests again")
        self._board.end_pass(trouble)


class _Attempts:
    """What became of the writes of one pass.

    An object that has changed meanwhile is read again at once. A write that is refused harms no other, and is tried
    again at the next poll, no sooner. An API server in trouble gets no further request in this pass.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.refused: list[str] = []
        self.trouble: ApiError | None = None

    async def make(self, request: Coroutine[None, None, None]) -> bool:
        """Make a request; tell whether it succeeded."""
        try:
            await request
        except OutdatedError:
            self._wake()
        except RefusedError as error:
            self.refused.append(str(error))
        except ApiError as error:
            self.trouble = error
        else:
            return True
        return False
