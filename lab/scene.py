"""The lab put together: an API server that knows the resources, a Prometheus, the two GPU hosts, and the operator."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from lab.exporters import EXPORTER_PORT, METRICS_PORT, Card, Host, State
from lab.kubectl import Kubectl
from lab.ports import Address
from lab.processes import Process
from lab.prometheus import Prometheus

_ROOT = Path(__file__).parent.parent
_LAB_NETWORK = "192.168.1."
_ACCOUNT = _NAMESPACE = "gpu-topology"


class Scene:
    """The hosts of the design contract, moved from 192.168.1.x to a loopback network, and what watches them.

    Two scenes on different networks do not disturb each other; on one API server they share its GpuNodes.
    """

    def __init__(self, folder: Path, kubeconfig: Path, *, network: str = "127.0.0.", scrape_seconds: int = 1) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self.kubectl = Kubectl(kubeconfig)
        self.network = network
        self.hosts = {
            "node-1": Host(f"{network}50", Card()),
            "node-2": Host(f"{network}60", Card(temperature=41, load=3, power=38, fan=620)),
        }
        self.prometheus = Prometheus(folder / "prometheus", prometheus_address(network), scrape_seconds=scrape_seconds)
        self.operators: list[Process] = []

    @property
    def samples(self) -> str:
        """Return the manifests of the lab's GpuNodes and RuntimeTopology, moved to this network."""
        files = sorted((_ROOT / "manifests" / "samples").glob("*.yaml"))
        return "---\n".join(file.read_text() for file in files).replace(_LAB_NETWORK, self.network)

    def install(self) -> None:
        """Give the API server the resources, and the operator's account with the rights that the manifests give it."""
        self.kubectl("apply", f"--kustomize={_ROOT / 'crds'}")
        for name in ("namespace", "rbac"):
            self.kubectl("apply", f"--filename={_ROOT / 'manifests' / 'base' / f'{name}.yaml'}")
        crds = [f"crd/{plural}.runtime.ialab.dev" for plural in ("gpunodes", "runtimetopologies")]
        self.kubectl("wait", "--for=condition=Established", *crds, "--timeout=30s")

    def watch_hosts(self) -> None:
        """Tell Prometheus of the hosts, also of those that were added to the scene."""
        jobs = {"gpu-exporter": EXPORTER_PORT, "gpu-metrics": METRICS_PORT}
        self.prometheus.watch(
            {job: [(host.address, port) for host in self.hosts.values()] for job, port in jobs.items()}
        )

    def start(self) -> Self:
        """Install the resources and start Prometheus; the operator waits for its turn."""
        try:
            self.install()
            self.watch_hosts()
            self.prometheus.start()
        except BaseException:
            self.stop()
            raise
        return self

    def operator(self, **settings: str) -> Process:
        """Return the operator as a user runs it, not started yet; settings are its variables without their prefix."""
        account = self.kubectl.as_account(
            _ACCOUNT, namespace=_NAMESPACE, kubeconfig=self.folder / "operator.kubeconfig"
        )
        variables = {"PROMETHEUS_URL": self.prometheus.url, "POLL_SECONDS": "1", "LISTEN": "", **settings}
        env = {f"GPU_TOPOLOGY_{name}": value for name, value in variables.items()}
        program = Path(sys.executable).with_name("gpu-topology")
        operator = Process(
            [program, "run"], self.folder / "operator.log", env=env | {"KUBECONFIG": str(account.kubeconfig)}
        )
        self.operators.append(operator)
        return operator

    def stop(self) -> None:
        """Stop the operators, Prometheus and the hosts; what the API server holds stays."""
        with ExitStack() as last_first:
            for host in self.hosts.values():
                last_first.callback(host.switch, State.DOWN)
            last_first.callback(self.prometheus.stop)
            for operator in self.operators:
                last_first.callback(operator.stop)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def prometheus_address(network: str) -> Address:
    """Return where Prometheus listens on such a network."""
    return f"{network}40", 9090


def addresses(network: str = "127.0.0.") -> list[Address]:
    """Return every address that a scene on such a network listens on."""
    ports = (EXPORTER_PORT, METRICS_PORT)
    return [prometheus_address(network), *((f"{network}{host}", port) for host in (50, 60) for port in ports)]
