"""A real Prometheus, or a relative of it, that scrapes the targets of a file."""

import http.client
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from lab import tools
from lab.ports import Address
from lab.processes import Process, wait_for

_READY_SECONDS = 30

_CONFIG = """\
global:
  scrape_interval: {interval}s
  scrape_timeout: {interval}s
scrape_configs:
  - job_name: lab
    file_sd_configs:
      - files: [targets.json]
        refresh_interval: 1s
"""


def server(authority: str) -> list[str | Path]:
    """Return the command of a Prometheus that listens there."""
    return [*_scraper(authority), "--storage.tsdb.path=data", "--storage.tsdb.retention.time=2h"]


def agent(authority: str) -> list[str | Path]:
    """Return the command of a Prometheus that scrapes, but keeps no series."""
    return [*_scraper(authority), "--agent", "--storage.agent.path=data"]


def victoria_metrics(authority: str) -> list[str | Path]:
    """Return the command of a single-node VictoriaMetrics, which reads the configuration of Prometheus."""
    return [tools.VICTORIA_METRICS.built(), *_relative(authority), "-storageDataPath=data", "-retentionPeriod=1d"]


def vmagent(authority: str) -> list[str | Path]:
    """Return the command of VictoriaMetrics' scraper, which keeps no series."""
    nowhere = "-remoteWrite.url=http://127.0.0.1:9/write"
    return [tools.VMAGENT.built(), *_relative(authority), nowhere, "-remoteWrite.tmpDataPath=data"]


def _relative(authority: str) -> list[str | Path]:
    return [
        "-promscrape.config=prometheus.yml",
        "-promscrape.config.strictParse=false",  # it knows no refresh_interval
        "-promscrape.fileSDCheckInterval=1s",
        f"-httpListenAddr={authority}",
    ]


def _scraper(authority: str) -> list[str | Path]:
    return [
        tools.prometheus(),
        "--config.file=prometheus.yml",
        f"--web.listen-address={authority}",
        "--scrape.discovery-reload-interval=100ms",  # its own five seconds are long in a demo
    ]


class Prometheus:
    """Own a Prometheus, its data, and its list of targets, all in one folder."""

    def __init__(
        self,
        folder: Path,
        address: Address,
        *,
        scrape_seconds: int = 1,
        command: Callable[[str], list[str | Path]] = server,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._address = address
        self.watch({})
        (folder / "prometheus.yml").write_text(_CONFIG.format(interval=scrape_seconds))
        self._process = Process(command(self.authority), folder / "prometheus.log", cwd=folder)

    @property
    def authority(self) -> str:
        """Return where it listens, as host:port."""
        return f"{self._address[0]}:{self._address[1]}"

    @property
    def url(self) -> str:
        """Return the URL that the operator is given."""
        return f"http://{self.authority}"

    def watch(self, jobs: dict[str, Iterable[Address]]) -> None:
        """Scrape these targets from now on, by the name of their job; a running Prometheus notices."""
        groups = [
            {"targets": [f"{host}:{port}" for host, port in targets], "labels": {"job": job}}
            for job, targets in jobs.items()
        ]
        unfinished = self._folder / "targets.unfinished"
        unfinished.write_text(json.dumps(groups, indent=2))
        unfinished.rename(self._folder / "targets.json")

    def start(self) -> Self:
        """Start it, with the data from before, and return when it answers."""
        self._process.start()
        wait_for("Prometheus is ready", self._is_ready, _READY_SECONDS, self._process)
        return self

    def stop(self) -> None:
        """Stop it; the data stays."""
        self._process.stop()

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection(*self._address, timeout=1)
        try:
            connection.request("GET", "/-/ready")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()
