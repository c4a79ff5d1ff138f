"""Whatever Prometheus does, the mode stands, and is right soon after."""

import asyncio
import time
from datetime import timedelta
from http import HTTPStatus
from itertools import pairwise

import pytest

from controller import reconciler
from controller.board import Board
from controller.facts import Instant
from controller.kube import Kube, connect
from controller.prometheus import Prometheus
from controller.reconciler import Reconciler
from controller.settings import load
from lab.processes import wait_for
from tests.faults.conftest import Stage, lasting
from tests.history.checker import Terms

SOURCE = '--output=jsonpath={.status.conditions[?(@.type=="SourceAvailable")].status}'


@pytest.mark.soak
@pytest.mark.parametrize("how", ["down", "slow", "flapping"])
def test_a_prometheus_that_is_away_changes_no_mode(stage: Stage, how: str) -> None:
    stage.start(a=True, b=False)
    mode = stage.mode()
    if how == "down":
        stage.prometheus.status = HTTPStatus.SERVICE_UNAVAILABLE
    if how == "slow":
        stage.prometheus.delay = 60
    if how == "flapping":
        for turn in range(int(lasting(4, 60))):
            stage.prometheus.status = HTTPStatus.BAD_GATEWAY if turn % 2 == 0 else HTTPStatus.OK
            time.sleep(1)
    else:
        is_known = lambda: stage.kubectl("get", "runtimetopology", "cluster", SOURCE) == "False"  # noqa: E731
        wait_for("it is known to be away", is_known, 20, stage.operator)
        time.sleep(lasting(1, 180))
    assert stage.mode() == mode
    stage.prometheus.status, stage.prometheus.delay = HTTPStatus.OK, 0
    stage.prometheus.up["b"] = True
    stage.comes_to(30, a="online", b="online")
    stage.judge()


@pytest.mark.soak
def test_k24_one_error_costs_one_poll(stage: Stage) -> None:
    stage.start(a=True)
    stage.prometheus.status = HTTPStatus.INTERNAL_SERVER_ERROR
    asked = len(stage.prometheus.asked)
    wait_for("it fails once", lambda: len(stage.prometheus.asked) > asked, 10, stage.operator)
    stage.prometheus.status = HTTPStatus.OK
    stage.prometheus.up["a"] = False
    stage.comes_to(30, a="unexpected_down")
    polls = stage.prometheus.asked[asked:]
    assert max(later - earlier for earlier, later in pairwise(polls)) < 10
    stage.judge()


@pytest.mark.soak
@pytest.mark.parametrize("minutes", [10, -10])
def test_a_wall_clock_that_jumps_cuts_no_window_short(
    stage: Stage, minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(stage.kubeconfig))
    stage.needed = ()
    stage.topology(window=6)
    stage.declare(a=True, b=True)
    jump = timedelta()

    def clocks() -> Instant:
        now = reconciler.read_clocks()
        return Instant(now.wall + jump, now.mono)

    async def story() -> None:
        nonlocal jump
        chosen = load({"prometheus_url": stage.prometheus.url, "poll_seconds": "0.5"})
        board = Board(asyncio.get_running_loop().time)
        async with Kube(await connect()) as kube, Prometheus(chosen.source, 1, chosen.series) as prometheus:
            loop = asyncio.create_task(Reconciler(kube, prometheus, chosen.policy, 0.5, board, clocks).run())
            await asyncio.to_thread(stage.comes_to, 30, a="online", b="online")
            stage.prometheus.up["b"] = False
            jump = timedelta(minutes=minutes)
            await asyncio.to_thread(stage.comes_to, 30, a="online", b="unexpected_down")
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)

    asyncio.run(story())
    assert stage.mode() == "degraded_single_gpu"
    stage.judge(Terms(stamps=False))
