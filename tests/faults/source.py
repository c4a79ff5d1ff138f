"""A Prometheus that plays a script: hosts that are up or down, and answers that are late, wrong, or none."""

import json
import threading
import time
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from lab.ports import free_port

HOST = "127.0.0.1"


class ScriptedPrometheus:
    """Answer while entered; each attribute may be changed at any time."""

    def __init__(self) -> None:
        self.up: dict[str, bool] = {}
        """By host: whether its target is up."""
        self.status = HTTPStatus.OK
        self.delay = 0.0
        self.asked: list[float] = []
        """When its targets were asked for, on the monotonic clock."""
        self.port = free_port(HOST)
        self._released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        prometheus = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = prometheus.answer(urlsplit(self.path).path)
                try:
                    self.send_response_only(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # whoever asked has not waited

            do_POST = do_GET  # noqa: N815 - a long query comes so

        self._released.clear()
        self._server = ThreadingHTTPServer((HOST, self.port), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign] # a client that was killed
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str) -> tuple[HTTPStatus, bytes]:
        if path.endswith("/targets"):
            self.asked.append(time.monotonic())
        self._released.wait(self.delay)
        if self.status is not HTTPStatus.OK:
            return self.status, b"{}"
        data = {"activeTargets": self._targets()} if path.endswith("/targets") else self._series()
        return HTTPStatus.OK, json.dumps({"status": "success", "data": data}).encode()

    def _targets(self) -> list[Any]:
        now = datetime.now(UTC).isoformat()
        return [
            {
                "scrapeUrl": f"http://{host}:9182/metrics",
                "labels": {"job": "gpu", "instance": f"{host}:9182"},
                "health": "up" if up else "down",
                "lastError": "" if up else "connection refused",
                "lastScrape": now,
                "scrapeInterval": "1s",
            }
            for host, up in dict(self.up).items()
        ]

    def _series(self) -> Any:  # noqa: ANN401 - JSON
        labels = {"__name__": "gpu_temp_c", "job": "gpu"}
        result = [
            {"metric": labels | {"instance": f"{host}:9182"}, "value": [time.time(), "40"]}
            for host, up in dict(self.up).items()
            if up
        ]
        return {"resultType": "vector", "result": result}
