"""A proxy between the operator and a real API server that fails as it is told, per kind and verb, while all else works.

It listens with the API server's own certificate, which is made for this machine, so that a kubeconfig needs nothing but
another port.
"""

import asyncio
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, Self

from lab.ports import free_port

HOST = "127.0.0.1"
BOTH = frozenset({"gpunodes", "runtimetopologies"})
READS = frozenset({"list", "watch"})
_PATH = re.compile(r"/apis/runtime\.ialab\.dev/v1alpha1/(\w+)(/[^/?]+)?(/status)?")
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


class Trouble(Enum):
    """What can be done to a request instead of answering it."""

    RESET = auto()
    HANG = auto()
    """The connection stays open, and nothing ever comes."""


@dataclass(frozen=True)
class Fault:
    """What happens to requests for some kinds with some verbs; all that go through, where it names none."""

    answer: HTTPStatus | Trouble | float
    """A status to answer with, or what to do instead, or by how many seconds to delay."""
    kinds: frozenset[str] | None = None
    verbs: frozenset[str] | None = None
    headers: tuple[str, ...] = ()
    token: str | None = None
    """Only requests with this token."""

    def hits(self, request: "Request") -> bool:
        return (
            (self.kinds is None or request.kind in self.kinds)
            and (self.verbs is None or request.verb in self.verbs)
            and (self.token is None or request.token == self.token)
        )


class Request(NamedTuple):
    """A request as far as faults tell requests apart."""

    at: float
    kind: str
    verb: str
    token: str
    fault: Fault | None


@dataclass(eq=False)
class _Stream:
    """A watch that is open."""

    kind: str
    client: asyncio.StreamWriter
    frozen: bool = False


@dataclass
class Proxy:
    """Listen while entered; `faults` may be set and changed at any time, and hold for requests that come after."""

    certificates: Path
    upstream: int
    port: int = field(default_factory=lambda: free_port(HOST))
    faults: tuple[Fault, ...] = ()
    requests: list[Request] = field(default_factory=list)
    _streams: set[_Stream] = field(default_factory=set)
    _clients: set[asyncio.StreamWriter] = field(default_factory=set)
    _server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self._do(self._tidy_up())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ---- what a test does

    def accept(self) -> None:
        """Take connections."""
        certificate, key = (self.certificates / f"apiserver.{suffix}" for suffix in ("crt", "key"))
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, key)
        self._server = self._do(asyncio.start_server(self._serve, HOST, self.port, ssl=tls))

    def refuse(self) -> None:
        """Break all connections, and refuse new ones."""

        async def close() -> None:
            if self._server:
                self._server.close()
            for client in list(self._clients):
                client.transport.abort()

        self._do(close())

    def black_hole(self, kinds: frozenset[str] = BOTH) -> None:
        """Let the open watches go on without another byte, and without an end."""
        for stream in self._of(kinds):
            stream.frozen = True

    def cut(self, kinds: frozenset[str] = BOTH) -> None:
        """Break the open watches off."""
        for stream in self._of(kinds):
            self._loop.call_soon_threadsafe(stream.client.transport.abort)

    def inject(self, event: object, kinds: frozenset[str] = BOTH) -> None:
        """Put an event into the open watches."""
        line = json.dumps(event).encode() + b"\n"
        for stream in self._of(kinds):
            self._loop.call_soon_threadsafe(stream.client.write, b"%x\r\n%b\r\n" % (len(line), line))

    def watched(self, kinds: frozenset[str] = BOTH) -> bool:
        """Tell whether a live watch of each kind is open."""
        return {stream.kind for stream in self._of(kinds) if not stream.frozen} == kinds

    def seen(self, kind: str, verb: str, since: float = 0) -> list[Request]:
        """Return the requests of this sort since a moment of the monotonic clock."""
        return [one for one in list(self.requests) if (one.kind, one.verb) == (kind, verb) and one.at >= since]

    # ---- how it is done

    def _of(self, kinds: frozenset[str]) -> list[_Stream]:
        return [stream for stream in list(self._streams) if stream.kind in kinds]

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever the work gives
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _tidy_up(self) -> None:
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        upstreams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._clients.add(client)
        try:
            while await self._relay(reader, client, upstreams):
                pass
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # either end has gone
        finally:
            self._clients.discard(client)
            client.transport.abort()
            for _, upstream in upstreams:
                upstream.transport.abort()

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        upstreams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
    ) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(int(_header(head, "content-length") or 0))
        request = self._note(head)
        match request.fault.answer if request.fault else None:
            case HTTPStatus() as status:
                client.write(_refusal(status, request.fault.headers if request.fault else ()))
                return True
            case Trouble.RESET:
                return False
            case Trouble.HANG:
                await asyncio.Event().wait()
            case float() | int() as seconds:
                await asyncio.sleep(seconds)
            case None:
                pass
        if not upstreams:
            tls = ssl.create_default_context(cafile=self.certificates / "apiserver.crt")
            upstreams.append(await asyncio.open_connection(HOST, self.upstream, ssl=tls))
        source, upstream = upstreams[0]
        upstream.write(head + body)
        answer = await source.readuntil(b"\r\n\r\n")
        client.write(answer)
        if _header(answer, "transfer-encoding") != "chunked":
            client.write(await source.readexactly(int(_header(answer, "content-length") or 0)))
            return True
        stream = _Stream(request.kind, client)
        if request.verb == "watch":
            self._streams.add(stream)
        try:
            await _relay_chunks(source, client, lambda: stream.frozen)
        finally:
            self._streams.discard(stream)
        return True

    def _note(self, head: bytes) -> Request:
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        found = _PATH.match(path)
        read = "watch" if "watch=true" in path else "get" if not found or found[2] else "list"
        kind = f"{found[1]}{found[3] or ''}" if found else "events" if "/events" in path else "other"
        token = _header(head, "authorization").split(" ")[-1]
        request = Request(time.monotonic(), kind, _VERBS.get(method, read), token, None)
        fault = next((fault for fault in self.faults if fault.hits(request)), None)
        self.requests.append(request := request._replace(fault=fault))
        return request


async def _relay_chunks(
    source: asyncio.StreamReader, client: asyncio.StreamWriter, is_frozen: Callable[[], bool]
) -> None:
    while True:
        size = await source.readuntil(b"\r\n")
        chunk = await source.readexactly(int(size, 16) + 2)
        if is_frozen():
            await asyncio.Event().wait()
        client.write(size + chunk)
        await client.drain()
        if not int(size, 16):
            return


def _header(head: bytes, name: str) -> str:
    found = re.search(rf"(?im)^{name}: *(.*?)\r$", head.decode())
    return found[1] if found else ""


def _refusal(status: HTTPStatus, headers: tuple[str, ...]) -> bytes:
    body = json.dumps(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "as the test wants", "code": status}
    )
    lines = (f"HTTP/1.1 {status} {status.phrase}", "Content-Type: application/json", f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, *headers, "", body]).encode()
