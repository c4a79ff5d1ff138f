"""The stage for faults: a control plane of its own, a proxy before it, a scripted Prometheus, and the operator."""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from lab.controlplane import ControlPlane
from lab.kubectl import Kubectl
from lab.processes import LabError, Process, wait_for
from tests.faults.proxy import HOST, Proxy
from tests.faults.source import ScriptedPrometheus
from tests.history.checker import LISTS, Terms, check
from tests.history.recorder import Recorder

ROOT = Path(__file__).parents[2]
ALL = "gpunodes,runtimetopologies"
GROUP = "runtime.ialab.dev"
PATH = f"/apis/{GROUP}/v1alpha1"
WINDOW = 3
UNDER_FAULTS = Terms(lag_seconds=120)
"""While the operator hears nothing, what it has said stands."""


def lasting(short: float, long: float) -> float:
    """Return how long a fault lasts: shortened, unless FAULTS=long asks for the time that the report had."""
    return long if os.environ.get("FAULTS") == "long" else short


class Stage:
    """What a test of faults has to do with."""

    def __init__(self, folder: Path, plane: ControlPlane, last_first: ExitStack) -> None:
        self.folder, self.plane = folder, plane
        self.kubectl = Kubectl(plane.kubeconfig)
        self.install()
        server = self._server(plane.kubeconfig)
        certificates = plane.kubeconfig.parent / "certificates"
        self.proxy = last_first.enter_context(Proxy(certificates, int(server.rpartition(":")[2])))
        self.prometheus = last_first.enter_context(ScriptedPrometheus())
        self.recorder = last_first.enter_context(Recorder(plane.kubeconfig))
        self.kubeconfig = folder / "operator.kubeconfig"
        self.kubectl.as_account("gpu-topology", namespace="gpu-topology", kubeconfig=self.kubeconfig)
        through_proxy = self.kubeconfig.read_text().replace(server, f"https://{HOST}:{self.proxy.port}")
        self.kubeconfig.write_text(through_proxy)
        self.operator = self._operator()
        self.needed: tuple[Process, ...] = (self.operator,)
        """What must not end while a test waits; nothing where the operator runs in the test itself."""
        last_first.callback(self.operator.kill)

    def install(self) -> None:
        self.kubectl("apply", f"--kustomize={ROOT / 'crds'}")
        for name in ("namespace", "rbac"):
            self.kubectl("apply", f"--filename={ROOT / 'manifests' / 'base' / f'{name}.yaml'}")
        crds = [f"crd/{plural}.{GROUP}" for plural in ALL.split(",")]
        self.kubectl("wait", "--for=condition=Established", *crds, "--timeout=30s")
        wait_for("both kinds are served", lambda: self.kubectl.succeeds("get", ALL), 30)

    def topology(self, window: int = WINDOW) -> None:
        self.apply(self._manifest("RuntimeTopology", "cluster", {"stabilizationSeconds": window}))

    def declare(self, *, expected_offline: bool = False, **cards: bool) -> None:
        """Declare cards, each on a host of its name that is up or down."""
        self.prometheus.up.update(cards)
        spec = {"vramGb": 16, "expectedOffline": expected_offline}
        self.apply(*(self._manifest("GpuNode", card, {"host": card, **spec}) for card in cards))

    def apply(self, *manifests: Any) -> None:  # noqa: ANN401 - JSON
        self.kubectl.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))

    def delete(self, *cards: str) -> None:
        self.kubectl("delete", "gpunode", *cards, "--timeout=10s")

    def start(self, **cards: bool) -> None:
        """Declare a topology and cards, start the operator, and wait until all is judged and watched."""
        self.topology()
        self.declare(**cards)
        self.operator.start()
        self.comes_to(30, **{card: "online" if up else "unexpected_down" for card, up in cards.items()})
        wait_for("both kinds are watched", self.proxy.watched, 30, self.operator)

    def comes_to(self, seconds: float, **phases: str) -> None:
        """Wait until the cards are judged like this, and the topology lists these and no others."""

        def state() -> Any:  # noqa: ANN401 - JSON
            items = self.kubectl.json("get", ALL)["items"]
            status: Any = next((item.get("status", {}) for item in items if item["kind"] == "RuntimeTopology"), {})
            judged = {
                item["metadata"]["name"]: item.get("status", {}).get("phase")
                for item in items
                if item["kind"] == "GpuNode"
            }
            listed = {entry["name"]: entry["status"] for field in LISTS for entry in status.get(field) or ()}
            return judged, listed, status.get("pendingMode")

        try:
            wait_for(f"{phases}", lambda: state() == (phases, phases, None), seconds, *self.needed)
        except LabError as error:
            raise LabError(f"{error}\nInstead there is {state()}") from error

    def mode(self) -> str:
        return self.kubectl("get", "runtimetopology", "cluster", "--output=jsonpath={.status.mode}")

    def log(self) -> str:
        return self.operator.log.read_text()

    def judge(self, terms: Terms = UNDER_FAULTS) -> None:
        """Hold all that was recorded against the contract."""
        assert check(self.recorder.history(), terms) == []

    def ends(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tell the operator to end; return its exit status if that takes less than five seconds."""
        self.operator.signal(number)
        return self.operator.wait(5)

    def compact(self) -> None:
        """Let etcd forget everything but the newest revision of each object."""
        listed = json.loads(self.kubectl("get", f"--raw={PATH}/gpunodes"))
        version = listed["metadata"]["resourceVersion"]
        connection = _Unix(self.plane.kubeconfig.parent / "etcd.sock:1")
        connection.request("POST", "/v3/kv/compaction", json.dumps({"revision": version, "physical": True}))
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
        connection.close()

    @staticmethod
    def _manifest(kind: str, name: str, spec: object) -> object:
        return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}

    @staticmethod
    def _server(kubeconfig: Path) -> str:
        server: str = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        return server

    def _operator(self) -> Process:
        settings = {"PROMETHEUS_URL": self.prometheus.url, "POLL_SECONDS": "1", "LISTEN": ""}
        env = {f"GPU_TOPOLOGY_{name}": value for name, value in settings.items()}
        program = Path(sys.executable).with_name("gpu-topology")
        env["KUBECONFIG"] = str(self.kubeconfig)
        return Process([program, "run"], self.folder / "operator.log", env=env)


class _Unix(HTTPConnection):
    """HTTP on a socket in a folder, which is how this etcd is reached."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane.start(tmp_path_factory.mktemp("faults")) as plane:
        yield plane


@pytest.fixture
def stage(plane: ControlPlane, tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as last_first:
        stage = Stage(tmp_path, plane, last_first)
        yield stage
        stage.operator.kill()
        for plural in ALL.split(","):
            stage.kubectl("delete", f"--raw={PATH}/{plural}")  # all at once, however many there are
