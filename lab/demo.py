"""A day of the lab: the hosts come and go, and after each step the topology has to say what the contract says."""

import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.clusters import open_cluster
from lab.exporters import State
from lab.kubectl import Kubectl
from lab.ports import ensure_free
from lab.processes import LabError, Process, wait_for
from lab.scene import Scene, addresses

_STABILIZATION_SECONDS = 5
_STEP_SECONDS = 30
_ALL = "gpunodes,runtimetopology"
_NODE_1, _NODE_2 = "rx9070", "rx7900xt"


@dataclass(frozen=True)
class Step:
    """What happens to the hosts, and what the contract says of it."""

    title: str
    switches: Mapping[str, State]
    phases: Mapping[str, str]
    mode: str
    degradation: str
    level: int

    @property
    def expectation(self) -> str:
        """Return what has to come of it, in words."""
        phases = ", ".join(f"{card} is {phase}" for card, phase in self.phases.items())
        return f"{phases}; mode {self.mode}, degradation {self.degradation} (level {self.level})"


STORY = (
    Step(
        "Node 2 is off on purpose",
        {},
        {_NODE_1: "online", _NODE_2: "expected_offline"},
        mode="degraded_single_gpu",
        degradation="LIGHT",
        level=1,
    ),
    Step(
        "Node 2 comes up",
        {"node-2": State.UP},
        {_NODE_1: "online", _NODE_2: "online"},
        mode="multi_gpu",
        degradation="NORMAL",
        level=0,
    ),
    Step(
        "Node 1 fails without warning",
        {"node-1": State.DOWN},
        {_NODE_1: "unexpected_down", _NODE_2: "online"},
        mode="degraded_single_gpu",
        degradation="LIGHT",
        level=1,
    ),
    Step(
        "Everything is off",
        {"node-2": State.DOWN},
        {_NODE_1: "unexpected_down", _NODE_2: "expected_offline"},
        mode="inventory_only",
        degradation="HEAVY",
        level=2,
    ),
    Step(
        "Node 1 returns",
        {"node-1": State.UP},
        {_NODE_1: "online", _NODE_2: "expected_offline"},
        mode="degraded_single_gpu",
        degradation="LIGHT",
        level=1,
    ),
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
        operator = scene.operator().start()
        watcher = Watcher(scene.kubectl, operator)
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
        self._told: set[str] = set()
        self._phases: Mapping[str, str] = {}

    def see(self, step: Step) -> None:
        """Wait until a step has come out right, with its events, and show it."""
        try:
            wait_for(
                step.expectation,
                lambda: self._has_come_true(step),
                _STEP_SECONDS,
                self._operator,
            )
        except LabError as error:
            raise LabError(f"{error}\nInstead there is this:\n{self._kubectl('get', _ALL)}") from error
        news = wait_for(f"the events of '{step.title}'", lambda: self._news(step), _STEP_SECONDS, self._operator)
        print("Events:", *map(_sentence, news), sep="\n  ")
        print(f"$ kubectl get {_ALL}\n{self._kubectl('get', _ALL).rstrip()}")
        print(f"As the contract says: {step.expectation}")
        self._told |= {event["metadata"]["uid"] for event in news}
        self._phases = step.phases

    def _has_come_true(self, step: Step) -> bool:
        objects = self._kubectl.json("get", _ALL)["items"]
        phases = {item["metadata"]["name"]: item.get("status", {}).get("phase") for item in _of("GpuNode", objects)}
        (topology,) = _of("RuntimeTopology", objects)
        status = topology.get("status", {})
        degradation = status.get("degradation", {})
        return (phases, status.get("mode"), degradation.get("name"), degradation.get("level")) == (
            step.phases,
            step.mode,
            step.degradation,
            step.level,
        )

    def _news(self, step: Step) -> list[dict[str, Any]]:
        """Return the events since the last step, once those are in that the step must have."""
        events = self._kubectl.json("get", "events", "--namespace=default")["items"]
        news = sorted(filter(self._is_news, events), key=lambda event: int(event["metadata"]["resourceVersion"]))
        told = {(event["reason"], event["involvedObject"]["name"]) for event in news}
        changed = {card for card, phase in self._phases.items() if step.phases[card] != phase}
        expected = {("ModeChanged", "cluster"), *(("PhaseChanged", card) for card in changed)}
        return news if expected <= told else []

    def _is_news(self, event: dict[str, Any]) -> bool:
        ours = event["involvedObject"]["kind"] in {"GpuNode", "RuntimeTopology"}
        return ours and event["metadata"]["uid"] not in self._told


def _of(kind: str, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in objects if item["kind"] == kind]


def _sentence(event: dict[str, Any]) -> str:
    subject = event["involvedObject"]
    return f"{event['type']:8}{event['reason']:14}{subject['kind'].lower()}/{subject['name']}: {event['message']}"
