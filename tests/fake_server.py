"""A real HTTP server that answers as it is told, over TLS where it is given a certificate."""

import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override


@dataclass(frozen=True)
class Asked:
    """A request as it came in."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    connection: int
    """Counts connections."""


class Answer(NamedTuple):
    """What is sent back; nothing at all where the status is 0, and then the connection is closed."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    closes: bool = False
    """Close the connection afterwards without saying so."""


Answering = Callable[[Asked], Answer]


@dataclass
class FakeServer:
    """Listens while it is entered; `answering` may be replaced at any time."""

    answering: Answering
    address: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    open: int = 0

    def __enter__(self) -> Self:
        self._server = _Server((self.address, 0), _handler(self))
        self._server.tls = self.tls
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def authority(self) -> str:
        return f"{self.address}:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}"


class _Server(ThreadingHTTPServer):
    tls: ssl.SSLContext | None = None
    daemon_threads = True

    @override
    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        # The handshake is left to the connection's own thread.
        wrapped = (
            self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) if self.tls else None
        )
        return wrapped or connection, address

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that go away, as those that trust nobody do."""


def _handler(fake: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        @override
        def setup(self) -> None:
            if isinstance(self.request, ssl.SSLSocket):
                self.request.do_handshake()
            fake.connections += 1
            fake.open += 1
            self.number = fake.connections
            super().setup()

        @override
        def finish(self) -> None:
            super().finish()
            fake.open -= 1

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length", 0))
            query = self.rfile.read(length).decode() if length else url.query
            params = {name: values[0] for name, values in parse_qs(query).items()}
            asked = Asked(self.command, url.path, params, dict(self.headers), self.number)
            fake.asked.append(asked)
            answer = fake.answering(asked)
            self.close_connection = answer.closes or not answer.status
            if answer.status:
                self.send_response_only(answer.status)
                for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

        do_POST = do_GET  # noqa: N815 - as http.server finds it

    return Handler
