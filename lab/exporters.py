"""GPU hosts to play with: two small exporters each, which come up, go down, and fall silent when told."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from lab.ports import ensure_free

EXPORTER_PORT, METRICS_PORT = 9182, 9183

_WINDOWS = """\
# TYPE windows_os_info gauge
windows_os_info{product="Microsoft Windows 11 Pro",version="10.0.26100"} 1
# TYPE windows_exporter_collector_success gauge
windows_exporter_collector_success{collector="cpu"} 1
windows_exporter_collector_success{collector="os"} 1
"""


class State(StrEnum):
    """What a host can be told to be."""

    UP = "up"
    DOWN = "down"
    """Connections are refused."""
    SILENT = "silent"
    """The exporters answer and say nothing of the card, as with a driver that is gone."""


@dataclass(frozen=True)
class Card:
    """A card's readings at idle, around which the real ones move a little."""

    temperature: float = 32
    load: float = 0
    power: float = 49
    fan: float = 950

    def page(self) -> str:
        """Return the readings of this moment as the lab's own exporter writes them."""
        swing = math.sin(time.time() / 7)
        readings = {
            "gpu_temp_c": self.temperature + swing / 2,
            "gpu_load_pct": self.load,
            "gpu_power_w": self.power + swing,
            "gpu_fan_rpm": self.fan + round(swing * 10),
        }
        return "".join(f"# TYPE {name} gauge\n{name} {value:g}\n" for name, value in readings.items())


class Exporter:
    """Serve one page of metrics on one address for as long as it is open."""

    def __init__(self, host: str, port: int, page: Callable[[], str]) -> None:
        ensure_free([(host, port)])
        self._server = ThreadingHTTPServer((host, port), _handler(page))
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the port; from now on connections are refused."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Host:
    """A machine with a card, which starts switched off."""

    def __init__(self, address: str, card: Card | None = None) -> None:
        self.address = address
        self.state = State.DOWN
        self.metrics = (card or Card()).page
        """What the second port serves; replace it to play another exporter."""
        self._exporters: list[Exporter] = []

    def switch(self, state: State) -> None:
        """Bring the host into this state."""
        self.state = state
        if state is State.DOWN:
            while self._exporters:
                self._exporters.pop().close()
        elif not self._exporters:
            self._exporters.append(Exporter(self.address, EXPORTER_PORT, lambda: _WINDOWS))
            self._exporters.append(Exporter(self.address, METRICS_PORT, self._page))

    def _page(self) -> str:
        return "" if self.state is State.SILENT else self.metrics()


def _handler(page: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page().encode()
            self.send_response_only(HTTPStatus.OK)  # without a line in the log
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
