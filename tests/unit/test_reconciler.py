"""The loop passes when it must, and neither more often nor later; trouble with one write stays with it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from typing_extensions import override

from controller import names, resources
from controller.board import Board
from controller.facts import (
    Event,
    GpuNode,
    GpuNodeSpec,
    GpuNodeStatus,
    Instant,
    Mode,
    Observation,
    Policy,
    RuntimeTopology,
    RuntimeTopologySpec,
    RuntimeTopologyStatus,
    Sample,
    SourceFailure,
    Survey,
    Target,
    TargetHealth,
)
from controller.kube import ApiError, Kube, OutdatedError, RefusedError
from controller.names import Reason
from controller.profiles import built_in
from controller.prometheus import Prometheus
from controller.reconciler import Reconciler
from tests.unit.virtual_time import run

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLL = 5.0


def clocks() -> Instant:
    seconds = asyncio.get_running_loop().time()
    return Instant(START + timedelta(seconds=seconds), seconds)


@dataclass
class Script:
    """What the API server and Prometheus have and say, and what was asked of them, each with its virtual second."""

    nodes: dict[str, GpuNode] = field(default_factory=dict)
    topologies: dict[str, RuntimeTopology] = field(default_factory=dict)
    observation: Observation = field(default_factory=lambda: Survey((), ()))
    fault: Callable[[str], ApiError | None] = lambda _request: None
    requests: list[tuple[float, str]] = field(default_factory=list)

    def declare(self, *cards: str, up: bool = True) -> None:
        for card in cards:
            spec = GpuNodeSpec(host=card, vram_gb=16)
            self.nodes[card] = GpuNode(name=card, uid=f"uid-{card}", generation=1, spec=spec)
        self.show(**dict.fromkeys(cards, up))

    def show(self, **cards: bool) -> None:
        labels = {card: {"job": "gpu", "instance": f"{card}:9182"} for card in cards}
        self.observation = Survey(
            tuple(
                Target(
                    f"http://{card}:9182/metrics",
                    card,
                    9182,
                    labels[card],
                    TargetHealth.UP if up else TargetHealth.DOWN,
                    "",
                )
                for card, up in cards.items()
            ),
            tuple(Sample("gpu_temp_c", labels[card], 40.0) for card, up in cards.items() if up),
        )

    def topology(self, window: int = 30) -> None:
        spec = RuntimeTopologySpec(stabilization_seconds=window)
        self.topologies["cluster"] = RuntimeTopology(name="cluster", uid="uid-cluster", generation=1, spec=spec)

    def request(self, what: str) -> None:
        self.requests.append((asyncio.get_running_loop().time(), what))
        if error := self.fault(what):
            raise error

    def times(self, what: str) -> list[float]:
        return [round(at, 1) for at, request in self.requests if request == what]

    @property
    def mode(self) -> Mode | None:
        status = self.topologies["cluster"].status
        return status.mode if status else None


class ScriptedKube(Kube):
    def __init__(self, script: Script) -> None:
        self.script = script

    @override
    def distrust(self) -> None:
        pass

    @override
    async def nodes(self) -> tuple[GpuNode, ...]:
        self.script.request("list")
        return tuple(self.script.nodes.values())

    @override
    async def topologies(self) -> tuple[RuntimeTopology, ...]:
        return tuple(self.script.topologies.values())

    @override
    async def create_default_topology(self) -> None:
        self.script.request("create cluster")
        self.script.topology()

    @override
    async def write(self, plural: str, name: str, status: GpuNodeStatus | RuntimeTopologyStatus) -> None:
        self.script.request(f"write {name}")
        stored = resources.dump_status(status)
        if plural == names.GPU_NODES:
            read = resources.NODE_STATUS.validate_python(stored)
            self.script.nodes[name] = replace(self.script.nodes[name], status=read)
        else:
            topology = resources.TOPOLOGY_STATUS.validate_python(stored)
            self.script.topologies[name] = replace(self.script.topologies[name], status=topology)

    @override
    async def post(self, kind: str, target: GpuNode | RuntimeTopology, event: Event, now: Instant) -> None:
        self.script.request(f"event on {target.name}: {event.message}")


POLICY = Policy(profiles=built_in())


class ScriptedPrometheus(Prometheus):
    def __init__(self, script: Script) -> None:
        self.script = script

    @override
    async def survey(self) -> Observation:
        return self.script.observation


@asynccontextmanager
async def running(script: Script, poll_seconds: float = POLL) -> AsyncIterator[Reconciler]:
    board = Board(asyncio.get_running_loop().time)
    reconciler = Reconciler(ScriptedKube(script), ScriptedPrometheus(script), POLICY, poll_seconds, board, clocks)
    loop = asyncio.create_task(reconciler.run())
    await asyncio.sleep(0)
    yield reconciler
    loop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loop


def test_a_pass_comes_with_each_poll_and_an_idle_one_writes_nothing() -> None:
    script = Script()
    script.topology()
    script.declare("a")

    async def story() -> None:
        async with running(script):
            await asyncio.sleep(17)

    run(story())
    assert script.times("list") == [0, 5, 10, 15]
    assert (script.times("write a"), script.times("write cluster")) == ([0], [0])


def test_k24_a_failure_of_prometheus_delays_no_pass() -> None:
    script = Script()
    script.topology()
    script.declare("a")

    async def story() -> None:
        async with running(script):
            await asyncio.sleep(4)
            script.observation, good = SourceFailure(Reason.HTTP_ERROR, "500"), script.observation
            await asyncio.sleep(3)
            script.observation = good
            await asyncio.sleep(10)

    run(story())
    assert script.times("list") == [0, 5, 10, 15]


def test_the_topology_of_all_cards_is_created_where_none_exists_and_judged_within_a_second() -> None:
    script = Script()
    script.declare("a")

    async def story() -> None:
        async with running(script):
            await asyncio.sleep(1)

    run(story())
    assert script.times("create cluster") == [0]
    assert script.mode is Mode.SINGLE_GPU


def test_a_wake_brings_a_pass_within_a_second_however_many_edits_follow() -> None:
    script = Script()
    script.topology()

    async def story() -> None:
        async with running(script, poll_seconds=60) as reconciler:
            await asyncio.sleep(10)
            for _ in range(30):
                reconciler.wake()
                await asyncio.sleep(0.1)
            await asyncio.sleep(10)

    run(story())
    assert script.times("list") == [0, 10.7, 11.5, 12.3, 13.1], "the last edit is at 12.9"


def test_the_mode_changes_when_the_window_ends_and_not_at_the_next_poll() -> None:
    script = Script()
    script.topology(window=7)
    script.declare("a")

    async def story() -> None:
        async with running(script, poll_seconds=60) as reconciler:
            await asyncio.sleep(2)
            script.show(a=False)
            reconciler.wake()
            await asyncio.sleep(4.9)
            modes.append(script.mode)
            await asyncio.sleep(0.2)
            modes.append(script.mode)

    modes: list[Mode | None] = []
    run(story())
    assert modes == [Mode.SINGLE_GPU, Mode.INVENTORY_ONLY]


def test_k16_a_refused_write_harms_no_other_and_is_tried_once_a_poll(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    script = Script()
    script.topology()
    script.declare("a", "b")
    script.fault = lambda request: RefusedError("Cannot patch gpunodes/status of a") if request == "write a" else None

    async def story() -> None:
        async with running(script):
            await asyncio.sleep(17)
            script.fault = lambda _: None
            await asyncio.sleep(5)

    run(story())
    assert script.times("write a") == [0, 5, 10, 15, 20]
    assert (script.times("write b"), script.times("write cluster")) == ([0], [0])
    assert caplog.messages == [
        "RuntimeTopology cluster: Mode started as multi_gpu, degradation NORMAL 0: 2 of 2 cards online",
        "Cannot patch gpunodes/status of a",
        "The API server takes requests again",
    ]


def test_k16_a_topology_that_may_not_be_created_leaves_the_cards_their_phases() -> None:
    script = Script()
    script.declare("a")
    script.fault = lambda request: RefusedError("forbidden") if request == "create cluster" else None

    async def story() -> None:
        async with running(script):
            await asyncio.sleep(12)

    run(story())
    assert (script.times("create cluster"), script.times("write a")) == ([0, 5, 10], [0])


def test_an_object_that_changed_meanwhile_is_read_and_written_again_at_once() -> None:
    script = Script()
    script.topology()
    script.declare("a")
    outdated = [OutdatedError("409")]
    script.fault = lambda request: outdated.pop() if outdated and request == "write a" else None

    async def story() -> None:
        async with running(script):
            await asyncio.sleep(1)

    run(story())
    assert script.times("write a") == [0, 0.2]


def test_k05_an_api_server_that_asks_for_time_gets_it_also_from_one_who_is_woken() -> None:
    script = Script()
    script.topology()
    script.declare("a", "b", "c")
    script.fault = lambda request: ApiError("429", retry_after_seconds=20) if request == "write cluster" else None

    async def story() -> None:
        async with running(script) as reconciler:
            await asyncio.sleep(1)
            reconciler.wake()
            await asyncio.sleep(16)
            script.fault = lambda _: None
            await asyncio.sleep(4)

    run(story())
    assert script.times("list") == [0, 20.2]
    assert script.mode is Mode.MULTI_GPU


@pytest.mark.parametrize("error", [ApiError("500"), RefusedError("403")], ids=["in trouble", "forbids lists"])
def test_a_list_that_fails_is_tried_again_ever_later_but_with_each_poll_and_said_once(
    error: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script()
    script.topology()
    script.fault = lambda _: error

    async def story() -> None:
        async with running(script):
            await asyncio.sleep(23)

    run(story())
    assert script.times("list") == [0, 1, 3, 7, 12, 17, 22]
    assert caplog.messages == [str(error)]


def test_k14_an_event_that_is_refused_holds_up_no_status(caplog: pytest.LogCaptureFixture) -> None:
    script = Script()
    script.topology(window=0)
    script.declare("a")
    script.fault = lambda request: RefusedError("Cannot create events") if request.startswith("event") else None

    async def story() -> None:
        async with running(script):
            await asyncio.sleep(1)
            script.show(a=False)
            await asyncio.sleep(5)

    run(story())
    assert script.mode is Mode.INVENTORY_ONLY
    assert "Cannot create events" in caplog.messages


def test_a_list_that_is_late_is_waited_for_so_that_it_never_undoes_a_later_one() -> None:
    asked, open_lists = [], 0

    class SlowKube(ScriptedKube):
        @override
        async def topologies(self) -> tuple[RuntimeTopology, ...]:
            nonlocal open_lists
            open_lists += 1
            asked.append(open_lists)
            await asyncio.sleep(12)
            open_lists -= 1
            return ()

    script = Script()
    script.fault = lambda _: ApiError("500")

    async def story() -> None:
        board = Board(asyncio.get_running_loop().time)
        reconciler = Reconciler(SlowKube(script), ScriptedPrometheus(script), POLICY, POLL, board, clocks)
        loop = asyncio.create_task(reconciler.run())
        await asyncio.sleep(40)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    run(story())
    assert set(asked) == {1}


def test_a_fault_of_our_own_ends_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("controller.reconciler.decide", broken)
    script = Script()

    async def story() -> None:
        board = Board(asyncio.get_running_loop().time)
        reconciler = Reconciler(ScriptedKube(script), ScriptedPrometheus(script), POLICY, POLL, board, clocks)
        with pytest.raises(ExceptionGroup) as caught:
            await reconciler.run()
        assert caught.group_contains(ZeroDivisionError)

    run(story())
