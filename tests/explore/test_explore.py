"""Random histories of the whole operator in process: its rules, loop and writer, on virtual time.

After each, the judge holds every revision against the contract, and the state must be what a fresh start would give.
A seed that fails becomes a test with its own name in `test_decisions` or `test_reconciler`.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import kubernetes.aio as kubernetes
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.board import Board
from controller.facts import Instant, Policy
from controller.kube import Kube
from controller.names import GPU_NODES, RUNTIME_TOPOLOGIES
from controller.profiles import built_in
from controller.reconciler import Reconciler
from tests.explore.scripted import ScriptedApi, ScriptedPrometheus
from tests.history.checker import Terms, check
from tests.unit.virtual_time import run

EXAMPLES = int(os.environ.get("EXPLORE", "2000"))
"""How many histories are played in all; `make explore` plays more."""
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLICY = Policy(profiles=built_in())
POLL_SECONDS = 10.0
SETTLED_SECONDS = 200.0
"""Longer than each grace, doubt, and window of these histories."""
CARDS = ("a", "b", "c")
PHASES = {"up": ("online", "online"), None: ("unknown", "expected_offline")}
OFFLINE = ("unexpected_down", "expected_offline")

Step = tuple[str, Any, float]


@pytest.fixture(autouse=True, scope="module")
def one_client() -> Iterator[None]:
    """Make the client once: it reads all certificate authorities of the machine each time."""
    client = kubernetes.client.ApiClient(kubernetes.client.Configuration())
    with patch.object(kubernetes.client, "ApiClient", lambda _: client):
        yield


class Stage:
    """One operator at a time on one scripted world."""

    def __init__(self) -> None:
        self.api, self.prometheus = ScriptedApi(), ScriptedPrometheus()
        self.ahead = timedelta()
        self.deaf = False
        self._loop: asyncio.Task[None] | None = None

    def clocks(self) -> Instant:
        seconds = asyncio.get_running_loop().time()
        return Instant(START + timedelta(seconds=seconds) + self.ahead, seconds)

    async def start(self) -> None:
        kube = Kube(kubernetes.client.Configuration())
        kube._objects = kube._core = self.api  # type: ignore[assignment] # noqa: SLF001 - the wire is what is scripted
        board = Board(asyncio.get_running_loop().time)
        reconciler = Reconciler(kube, self.prometheus, POLICY, POLL_SECONDS, board, self.clocks)

        def watch(plural: str, resource: Any, deleted: bool) -> None:  # noqa: ANN401, FBT001 - as kopf tells
            if not self.deaf and kube.notice(plural, resource, deleted=deleted):
                reconciler.wake()

        self.api.watch = watch
        self._loop = asyncio.create_task(reconciler.run())

    async def stop(self) -> None:
        assert self._loop
        self._loop.cancel()
        await asyncio.gather(self._loop, return_exceptions=True)
        self.api.watch = None

    async def play(self, step: Step) -> None:  # noqa: C901, PLR0912 - one case for each kind of step
        what, how, seconds = step
        match what:
            case "declare":
                name, planned = how
                self.api.put(GPU_NODES, name, {"host": name, "vramGb": 16, "expectedOffline": planned})
            case "delete":
                self.api.remove(GPU_NODES, how)
            case "touch":
                self.api.touch(GPU_NODES, how)
            case "show":
                card, sight = how
                self.prometheus.sights.pop(card, None)
                if sight:
                    self.prometheus.sights[card] = sight
            case "window":
                self.api.put(RUNTIME_TOPOLOGIES, "cluster", {"stabilizationSeconds": how})
            case "forget":
                self.api.remove(RUNTIME_TOPOLOGIES, "cluster")
            case "source":
                self.prometheus.failing = how
            case "fault":
                self.api.faults += [how] * 3
            case "deaf":
                self.deaf = how
            case "jump":
                self.ahead += timedelta(seconds=how)
            case "restart":
                await self.stop()
                await asyncio.sleep(how)
                await self.start()
            case _:
                raise AssertionError(what)
        await asyncio.sleep(seconds)

    def outcome(self) -> dict[str, str]:
        nodes = {name: held for (plural, name), held in self.api.objects.items() if plural == GPU_NODES}
        return {name: held.get("status", {}).get("phase") for name, held in nodes.items()}

    def due(self) -> dict[str, str]:
        """Return what a fresh start would find of each card."""
        phases = {}
        for (plural, name), held in self.api.objects.items():
            if plural == GPU_NODES:
                pair = PHASES.get(self.prometheus.sights.get(name), OFFLINE)
                phases[name] = pair[held["spec"]["expectedOffline"]]
        return phases


WAITS = st.sampled_from([0.0, 0.05, 0.5, 3.0, 12.0, 40.0, 70.0])
NAMES = st.sampled_from(CARDS)
SIGHTS = st.sampled_from(["up", "up", "down", "bare", "waiting", None])
COMMON: list[st.SearchStrategy[Step]] = [
    st.tuples(st.just("declare"), st.tuples(NAMES, st.booleans()), WAITS),
    st.tuples(st.just("delete"), NAMES, WAITS),
    st.tuples(st.just("touch"), NAMES, WAITS),
    st.tuples(st.just("show"), st.tuples(NAMES, SIGHTS), WAITS),
    st.tuples(st.just("show"), st.tuples(NAMES, SIGHTS), WAITS),
    st.tuples(st.just("window"), st.sampled_from([0, 5, 30, 60]), WAITS),
    st.tuples(st.just("forget"), st.none(), WAITS),
    st.tuples(st.just("source"), st.booleans(), WAITS),
    st.tuples(st.just("fault"), st.sampled_from([409, 429, 500, 503, 403, 422, 404]), WAITS),
    st.tuples(st.just("deaf"), st.booleans(), WAITS),
]
JUMPS = st.tuples(st.just("jump"), st.sampled_from([-600, -31, 31, 600]), WAITS)
RESTARTS = st.tuples(st.just("restart"), st.sampled_from([0.0, 2.0, 45.0]), WAITS)


def judged(steps: Sequence[Step]) -> Stage:
    stage = Stage()

    async def story() -> None:
        for name in CARDS[:2]:
            stage.prometheus.sights[name] = "up"
            stage.api.put(GPU_NODES, name, {"host": name, "vramGb": 16, "expectedOffline": False})
        await stage.start()
        for step in steps:
            await stage.play(step)
        for heal in (("source", False, 0.0), ("deaf", False, 0.0)):
            await stage.play(heal)
        stage.api.faults.clear()
        stage.prometheus.sights = {
            card: "up" if sight == "waiting" else sight for card, sight in stage.prometheus.sights.items()
        }
        await asyncio.sleep(SETTLED_SECONDS)
        await stage.stop()

    run(story())
    return stage


def hold(steps: Sequence[Step]) -> None:
    stage = judged(steps)
    assert stage.outcome() == stage.due()
    jumped = any(what == "jump" for what, _, _ in steps)
    assert check(stage.api.revisions, Terms(lag_seconds=120, stamps=not jumped)) == []


@settings(max_examples=EXAMPLES * 2 // 3, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(*COMMON, RESTARTS), max_size=14))
@pytest.mark.timeout(0)
def test_whatever_happens_the_history_keeps_the_contract_over_restarts(steps: list[Step]) -> None:
    hold(steps)


@settings(max_examples=EXAMPLES // 3, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(*COMMON, JUMPS), max_size=14))
@pytest.mark.timeout(0)
def test_whatever_happens_the_history_keeps_the_contract_while_the_wall_clock_jumps(steps: list[Step]) -> None:
    hold(steps)
