"""What the operator says over HTTP: its own health, and the plain snapshot for programs that read the old file."""

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

from aiohttp import web

from controller.board import Board
from controller.names import DEFAULT_TOPOLOGY
from controller.snapshot import snapshot

READERS_LIMIT = 64
"""How many may follow the changes at a time; each costs a connection and nothing else."""

WRITE_SECONDS = 5.0
"""How long a reader may take for one change before it is cut off: it gets the newest state when it comes back."""

BEAT_SECONDS = 15.0
"""How often a reader without news gets a sign of life, which also finds those who are gone."""


class ListenError(Exception):
    """The address to serve on cannot be had; the text says which and why."""


class _State(NamedTuple):
    body: bytes
    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When what is shown is too old."""

    dead_after_seconds: float
    """Without the end of a pass, the loop counts as dead."""
    valid_for_seconds: float
    """A state that was not judged anew for so long is not shown any more."""


class Server:
    """Read-only views of the board. Nothing that a reader does or fails to do reaches the loop."""

    def __init__(self, board: Board, limits: Limits, *, serve_topology: bool = True) -> None:
        self._board, self._limits = board, limits
        self._readers = 0
        self.application = web.Application()
        self.application.router.add_get("/healthz", self._healthz)
        self.application.router.add_get("/readyz", self._readyz)
        if serve_topology:
            self.application.router.add_get("/topology", self._topology)
            self.application.router.add_get("/topology/events", self._events, allow_head=False)

    @asynccontextmanager
    async def listen(self, host: str, port: int) -> AsyncIterator[None]:
        """Serve while the context is open; raise ListenError where the address cannot be had."""
        runner = web.AppRunner(self.application, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else error
                raise ListenError(f"cannot listen on {host}:{port}, choose another --listen: {reason}") from None
            yield
        finally:
            await runner.cleanup()

    async def _healthz(self, _request: web.Request) -> web.Response:
        """Say whether passes still come to their end; a Prometheus that is away does not matter here."""
        report = {"alive": self._alive, **self._ages()}
        return web.json_response(report, status=HTTPStatus.OK if self._alive else HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _readyz(self, _request: web.Request) -> web.Response:
        """Say whether the last pass could read and write all it wanted, and if not, what the API server refused."""
        ready = self._alive and self._board.judged and not self._board.trouble
        report = {"ready": ready, "trouble": self._board.trouble, **self._ages()}
        return web.json_response(report, status=HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)

    @property
    def _alive(self) -> bool:
        return self._board.pass_age_seconds <= self._limits.dead_after_seconds

    def _ages(self) -> dict[str, float]:
        return {
            "last_pass_seconds": round(self._board.pass_age_seconds, 1),
            "last_judgement_seconds": round(self._board.judged_age_seconds, 1),
            "dead_after_seconds": self._limits.dead_after_seconds,
        }

    async def _topology(self, request: web.Request) -> web.Response:
        state = self._state(_name(request))
        headers = {"ETag": f'"{state.tag}"', "Cache-Control": "no-cache"}
        known = request.if_none_match or ()
        if any(tag.value in {state.tag, "*"} for tag in known):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return web.Response(body=state.body, content_type="application/json", headers=headers)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        name = _name(request)
        self._state(name)  # refused here, where a status code can still say so
        if self._readers >= READERS_LIMIT:
            raise _refusal(web.HTTPServiceUnavailable, f"{READERS_LIMIT} others follow the changes already")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        self._readers += 1
        try:
            await response.prepare(request)
            await self._follow(name, response)
        except TimeoutError:
            if request.transport:
                request.transport.abort()  # a proper end would wait for the reader too
        except (ConnectionError, web.HTTPException):
            pass  # the reader is gone, or the topology is
        finally:
            self._readers -= 1
        return response

    async def _follow(self, name: str, response: web.StreamResponse) -> None:
        sent = ""
        while True:
            change = self._board.next_change
            state = self._state(name)
            if state.tag != sent:
                await _write(response, b"event: topology\nid: %s\ndata: %s\n\n" % (state.tag.encode(), state.body))
                sent = state.tag
            try:
                await asyncio.wait_for(change.wait(), BEAT_SECONDS)
            except TimeoutError:
                await _write(response, b": still here\n\n")

    def _state(self, name: str) -> _State:
        status = self._board.topologies.get(name)
        if status is None and self._board.judged:
            there = ", ".join(sorted(self._board.topologies)) or "none"
            raise _refusal(web.HTTPNotFound, f"There is no RuntimeTopology {name}; there are: {there}")
        if status is None or status.mode is None:
            raise _refusal(web.HTTPServiceUnavailable, f"RuntimeTopology {name} has no mode yet")
        if self._board.judged_age_seconds > self._limits.valid_for_seconds:
            text = f"The state is {self._board.judged_age_seconds:.0f} s old and no longer valid: {self._board.trouble}"
            raise _refusal(web.HTTPServiceUnavailable, text)
        body = json.dumps(snapshot(status), ensure_ascii=False, separators=(",", ":")).encode()
        return _State(body, hashlib.sha256(body).hexdigest()[:16])


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_SECONDS):
        await response.write(data)


def _name(request: web.Request) -> str:
    return request.query.get("topology", DEFAULT_TOPOLOGY)


def _refusal(kind: type[web.HTTPError], text: str) -> web.HTTPError:
    return kind(text=json.dumps({"error": text}), content_type="application/json")
