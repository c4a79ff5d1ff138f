"""The plain snapshot and the operator's health over HTTP, for readers of every kind."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from controller import server
from controller.board import Board
from controller.facts import ActiveGpu, Counts, Mode, Phase, RuntimeTopologyStatus
from controller.server import Limits, Server

Client = TestClient[Any, Any]
LIMITS = Limits(dead_after_seconds=60, valid_for_seconds=180)


def status(mode: Mode | None, *cards: str) -> RuntimeTopologyStatus:
    active = tuple(
        ActiveGpu(name=card.lower(), model=card, host="h", vram_gb=16, status=Phase.ONLINE, expected_offline=False)
        for card in cards
    )
    return RuntimeTopologyStatus(observed_generation=1, mode=mode, active_gpus=active, counts=Counts())


ONE, TWO = status(Mode.SINGLE_GPU, "RX9070"), status(Mode.MULTI_GPU, "RX7900XT", "RX9070")
ONE_SNAPSHOT = {
    "mode": "single_gpu",
    "active_gpus": [
        {
            "name": "RX9070",
            "host": "h",
            "vram_gb": 16,
            "status": "online",
            "expected_offline": False,
            "gpu_temp_c": None,
            "gpu_load_pct": None,
            "gpu_power_w": None,
            "gpu_fan_rpm": None,
        }
    ],
    "inventory_gpus": [],
    "unexpected_down": [],
}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def serving(board: Board, *, serve_topology: bool = True) -> AsyncIterator[Client]:
    application = Server(board, LIMITS, serve_topology=serve_topology).application
    async with TestClient(TestServer(application)) as client:
        yield client


def run(story: Callable[[Client, Board, Clock], Awaitable[None]], *, serve_topology: bool = True) -> None:
    async def main() -> None:
        clock = Clock()
        board = Board(clock)
        async with serving(board, serve_topology=serve_topology) as client, asyncio.timeout(20):
            await story(client, board, clock)

    asyncio.run(main())


async def answer(client: Client, path: str) -> tuple[int, Any]:
    response = await client.get(path)
    return response.status, await response.json()


def test_the_snapshot_of_the_default_topology_or_of_another_by_name() -> None:
    async def story(client: Client, board: Board, _: Clock) -> None:
        board.show({"cluster": ONE, "big": TWO})
        assert await answer(client, "/topology") == (200, ONE_SNAPSHOT)
        code, big = await answer(client, "/topology?topology=big")
        assert (code, big["mode"]) == (200, "multi_gpu")

    run(story)


def test_a_reader_who_has_the_state_gets_304_until_it_changes() -> None:
    async def story(client: Client, board: Board, _: Clock) -> None:
        board.show({"cluster": ONE})
        first = await client.get("/topology")
        known = {"If-None-Match": first.headers["ETag"]}
        same = await client.get("/topology", headers=known)
        assert (same.status, await same.read(), same.headers["ETag"]) == (304, b"", first.headers["ETag"])
        board.show({"cluster": TWO})
        changed = await client.get("/topology", headers=known)
        assert changed.status == 200
        assert changed.headers["ETag"] != first.headers["ETag"]

    run(story)


@pytest.mark.parametrize(
    ("topologies", "path", "expected"),
    [
        pytest.param(
            None, "/topology", (503, {"error": "RuntimeTopology cluster has no mode yet"}), id="nothing judged yet"
        ),
        pytest.param(
            {"cluster": status(None)},
            "/topology",
            (503, {"error": "RuntimeTopology cluster has no mode yet"}),
            id="judged, but Prometheus has not answered yet",
        ),
        pytest.param(
            {"cluster": ONE, "big": ONE},
            "/topology?topology=small",
            (404, {"error": "There is no RuntimeTopology small; there are: big, cluster"}),
            id="no such topology",
        ),
        pytest.param(
            {"cluster": ONE},
            "/topology/events?topology=small",
            (404, {"error": "There is no RuntimeTopology small; there are: cluster"}),
            id="no such topology to follow",
        ),
    ],
)
def test_a_state_that_is_not_there_is_refused_with_a_reason(
    topologies: dict[str, RuntimeTopologyStatus] | None, path: str, expected: tuple[int, object]
) -> None:
    async def story(client: Client, board: Board, _: Clock) -> None:
        if topologies is not None:
            board.show(topologies)
        assert await answer(client, path) == expected

    run(story)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_written(method: str) -> None:
    async def story(client: Client, board: Board, _: Clock) -> None:
        board.show({"cluster": ONE})
        assert (await client.request(method, "/topology")).status == 405

    run(story)


def test_the_snapshot_can_be_switched_off_and_health_stays() -> None:
    async def story(client: Client, board: Board, _: Clock) -> None:
        board.show({"cluster": ONE})
        assert [(await client.get(path)).status for path in ("/topology", "/topology/events", "/healthz")] == [
            404,
            404,
            200,
        ]

    run(story, serve_topology=False)


async def event(stream: aiohttp.StreamReader) -> tuple[str, Any]:
    lines = [(await stream.readline()).decode().rstrip("\n") for _ in range(4)]
    assert [line.partition(":")[0] for line in lines] == ["event", "id", "data", ""]
    return lines[1].removeprefix("id: "), json.loads(lines[2].removeprefix("data: "))["mode"]


def test_who_follows_gets_the_state_at_once_and_then_each_change_once() -> None:
    async def story(client: Client, board: Board, _: Clock) -> None:
        board.show({"cluster": ONE})
        async with client.get("/topology/events") as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            first = await event(response.content)
            board.show({"cluster": ONE})
            board.show({"cluster": ONE, "other": TWO})
            board.show({"cluster": TWO})
            second = await event(response.content)
            assert (first[1], second[1]) == ("single_gpu", "multi_gpu")
            assert f'"{second[0]}"' == (await client.get("/topology")).headers["ETag"]

    run(story)


def test_a_topology_that_is_deleted_ends_the_stream() -> None:
    async def story(client: Client, board: Board, _: Clock) -> None:
        board.show({"cluster": ONE})
        async with client.get("/topology/events") as response:
            await event(response.content)
            board.show({})
            assert await response.content.read() == b""

    run(story)


def test_a_reader_without_news_gets_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BEAT_SECONDS", 0.01)

    async def story(client: Client, board: Board, _: Clock) -> None:
        board.show({"cluster": ONE})
        async with client.get("/topology/events") as response:
            await event(response.content)
            assert await response.content.readline() == b": still here\n"

    run(story)


def test_readers_beyond_the_limit_are_turned_away_and_those_who_left_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READERS_LIMIT", 1)
    monkeypatch.setattr(server, "BEAT_SECONDS", 0.01)

    async def story(client: Client, board: Board, _: Clock) -> None:
        board.show({"cluster": ONE})
        async with client.get("/topology/events") as response:
            await event(response.content)
            assert await answer(client, "/topology/events") == (
                503,
                {"error": "1 others follow the changes already"},
            )
        while (await client.get("/topology/events")).status == 503:
            pass

    run(story)


def test_a_reader_who_reads_nothing_is_cut_off_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "WRITE_SECONDS", 0.2)
    monkeypatch.setattr(server, "READERS_LIMIT", 1)

    async def story(client: Client, board: Board, _: Clock) -> None:
        many = [f"CARD-{number}-{'x' * 400}" for number in range(20_000)]
        board.show({"cluster": status(Mode.MULTI_GPU, *many)})
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect((client.host, client.port))
        with peer:
            peer.sendall(b"GET /topology/events HTTP/1.1\r\nHost: h\r\n\r\n")
            assert (await client.get("/healthz")).status == 200
            while (await client.get("/topology/events")).status == 503:
                pass

    run(story)


def ages(last_pass: float, last_judgement: float) -> dict[str, float]:
    return {"last_pass_seconds": last_pass, "last_judgement_seconds": last_judgement, "dead_after_seconds": 60}


def test_k25_health_says_how_long_ago_the_last_pass_was_and_is_red_past_the_limit() -> None:
    async def story(client: Client, board: Board, clock: Clock) -> None:
        board.show({})
        board.end_pass()
        clock.now = 60
        assert await answer(client, "/healthz") == (200, {"alive": True, **ages(60, 60)})
        clock.now = 61
        assert await answer(client, "/healthz") == (500, {"alive": False, **ages(61, 61)})

    run(story)


def test_it_is_alive_before_the_first_pass_and_ready_after_it() -> None:
    async def story(client: Client, board: Board, clock: Clock) -> None:
        assert [(await client.get(path)).status for path in ("/healthz", "/readyz")] == [200, 503]
        board.show({})
        board.end_pass()
        assert await answer(client, "/readyz") == (200, {"ready": True, "trouble": "", **ages(0, 0)})
        clock.now = 61
        assert (await client.get("/readyz")).status == 503

    run(story)


def test_k16_readiness_names_what_the_api_server_refuses_while_the_loop_is_alive() -> None:
    async def story(client: Client, board: Board, clock: Clock) -> None:
        board.show({})
        clock.now = 10
        board.end_pass("Cannot patch gpunodes/status of a: 403 Forbidden")
        refused = {"ready": False, "trouble": "Cannot patch gpunodes/status of a: 403 Forbidden", **ages(0, 10)}
        assert await answer(client, "/readyz") == (503, refused)
        assert (await client.get("/healthz")).status == 200

    run(story)


def test_a_state_that_nobody_has_judged_for_long_is_not_shown_any_more() -> None:
    async def story(client: Client, board: Board, clock: Clock) -> None:
        board.show({"cluster": ONE})
        clock.now = 180
        board.end_pass("Cannot list gpunodes: 500")
        assert (await client.get("/topology")).status == 200
        clock.now = 181
        old = {"error": "The state is 181 s old and no longer valid: Cannot list gpunodes: 500"}
        assert await answer(client, "/topology") == (503, old)

    run(story)
