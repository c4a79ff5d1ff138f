"""A day of the lab: the hosts come and go, and after each step the topology has to say what the contract says."""

import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lab.clusters import open_cluster
from lab.exporters import State
from lab.kubectl import Kubectl
from lab.ports import ensure_free
from lab.processes import LabError, Process, wait_for
from lab.scene import Scene, addresses

_STABILIZATION_SECONDS = 5
_STEP_SECONDS = 30
_ALL = "gpunodes,runtimetopology"
_RX9070, _RX7900XT = "rx9070", "rx7900xt"


class Mode(NamedTuple):
    """A mode with the degradation that the contract gives it."""

    name: str
    degradation: str
    level: int


_MULTI = Mode("multi_gpu", "NORMAL", 0)
_DEGRADED = Mode("degraded_single_gpu", "LIGHT", 1)
_INVENTORY = Mode("inventory_only", "HEAVY", 2)


@dataclass(frozen=True)
class Step:
    """What happens to the hosts, and what the contract says of it."""

    title: str
    switches: Mapping[str, State]
    phases: Mapping[str, str]
    mode: Mode

    @property
    def expectation(self) -> str:
        """Return what has to come of it, in words."""
        phases = ", ".join(f"{card} is {phase}" for card, phase in self.phases.items())
        return f"{phases}; mode {self.mode.name}, degradation {self.mode.degradation} (level {self.mode.level})"


STORY = (
    Step("Node 2 is off on purpose", {}, {_RX9070: "online", _RX7900XT: "expected_offline"}, _DEGRADED),
    Step("Node 2 comes up", {"node-2": State.UP}, {_RX9070: "online", _RX7900XT: "online"}, _MULTI),
    Step(
        "Node 1 fails without warning",
        {"node-1": State.DOWN},
        {_RX9070: "unexpected_down", _RX7900XT: "online"},
        _DEGRADED,
    ),
    Step(
        "Everything is off",
        {"node-2": State.DOWN},
        {_RX9070: "unexpected_down", _RX7900XT: "expected_offline"},
        _INVENTORY,
    ),
    Step("Node 1 returns", {"node-1": State.UP}, {_RX9070: "online", _RX7900XT: "expected_offline"}, _DEGRADED),
)


def demo(context: str | None) -> None:
    """Play the story, and fail at the first step that does not come out as the contract says."""
    ensure_free(addresses())
    with ExitStack() as last_first:
        folder = Path(last_first.enter_context(tempfile.TemporaryDirectory(prefix="gpu-topology-")))
        print("Starting the API server, Prometheus and the operator")
        cluster = open_cluster(folder / "cluster", context=context)
        last_first.callback(cluster.stop)
        scene = Scene(folder, cluster.kubeconfig)
        scene.hosts["node-1"].switch(State.UP)
        last_first.enter_context(scene)
        print(
            f"Applying the lab's GpuNodes, and a window of {_STABILIZATION_SECONDS} s between two changes of mode "
            "(30 s unless set) to keep this short"
        )
        scene.kubectl.apply(with_window(scene.samples, _STABILIZATION_SECONDS))
        operator = scene.operator()
        watcher = Watcher(scene.kubectl, operator)
        operator.start()
        for number, step in enumerate(STORY, 1):
            print(f"\n=== {number}. {step.title} ===")
            for host, state in step.switches.items():
                scene.hosts[host].switch(state)
            watcher.see(step)
    print(f"\nAll {len(STORY)} steps came out as the contract says.")


def with_window(manifests: str, seconds: int) -> str:
    """Return the manifests with another anti-flapping window."""
    return re.sub(r"(?<=stabilizationSeconds: )\d+", str(seconds), manifests)


class Watcher:
    """Watch the story with kubectl, as a person would."""

    def __init__(self, kubectl: Kubectl, operator: Process) -> None:
        self._kubectl = kubectl
        self._operator = operator
        self._told = {_uid(event) for event in self._events()}  # of a demo before, in a cluster that lives on
        self._phases: Mapping[str, str] = {}

    def see(self, step: Step) -> None:
        """Wait until a step has come out right, with its events, and show it."""
        try:
            wait_for(step.expectation, lambda: self._has_come_true(step), _STEP_SECONDS, self._operator)
        except LabError as error:
            raise LabError(f"{error}\nInstead there is this:\n{self._kubectl('get', _ALL)}") from error
        news = wait_for(f"the events of '{step.title}'", lambda: self._news(step), _STEP_SECONDS, self._operator)
        print("Events:", *map(_sentence, news), sep="\n  ")
        print(f"$ kubectl get {_ALL}\n{self._kubectl('get', _ALL).rstrip()}")
        print(f"As the contract says: {step.expectation}")
        self._told.update(map(_uid, news))
        self._phases = step.phases

    def _has_come_true(self, step: Step) -> bool:
        objects = self._kubectl.json("get", _ALL)["items"]
        phases = {item["metadata"]["name"]: item.get("status", {}).get("phase") for item in _of("GpuNode", objects)}
        (topology,) = _of("RuntimeTopology", objects)
        status = topology.get("status", {})
        degradation = status.get("degradation", {})
        mode = (status.get("mode"), degradation.get("name"), degradation.get("level"))
        return phases == step.phases and mode == step.mode

    def _news(self, step: Step) -> list[dict[str, Any]]:
        """Return the events since the last step, once those are in that the step must have."""
        news = [event for event in self._events() if _uid(event) not in self._told]
        told = {(event["reason"], event["involvedObject"]["name"]) for event in news}
        changed = {card for card, phase in self._phases.items() if step.phases[card] != phase}
        expected = {("ModeChanged", "cluster"), *(("PhaseChanged", card) for card in changed)}
        return news if expected <= told else []

    def _events(self) -> list[dict[str, Any]]:
        events = self._kubectl.json("get", "events", "--namespace=default")["items"]
        ours = [event for event in events if event["involvedObject"]["kind"] in {"GpuNode", "RuntimeTopology"}]
        return sorted(ours, key=lambda event: int(event["metadata"]["resourceVersion"]))


def _of(kind: str, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in objects if item["kind"] == kind]


def _uid(event: dict[str, Any]) -> str:
    uid: str = event["metadata"]["uid"]
    return uid


def _sentence(event: dict[str, Any]) -> str:
    subject = event["involvedObject"]
    return f"{event['type']:8}{event['reason']:14}{subject['kind'].lower()}/{subject['name']}: {event['message']}"
