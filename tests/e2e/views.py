"""What the end-to-end tests look at, and the conditions that they wait for."""

import json
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any

import httpx

from lab.exporters import METRICS_PORT, State
from lab.processes import Process, wait_for
from lab.scene import Scene

API_VERSION = "runtime.ialab.dev/v1alpha1"
DEADLINE_SECONDS = 30


def manifest(kind: str, name: str, **spec: object) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def card(scene: Scene, name: str, host: str, **spec: object) -> dict[str, Any]:
    return manifest("GpuNode", name, **{"host": scene.hosts[host].address, "vramGb": 16, **spec})


def manifests(*objects: Mapping[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def window(seconds: int) -> dict[str, Any]:
    return manifest("RuntimeTopology", "cluster", stabilizationSeconds=seconds)


def show(scene: Scene, *up: str) -> None:
    """Switch these hosts on and the others off, and return when Prometheus has seen that."""
    for name, host in scene.hosts.items():
        host.switch(State.UP if name in up else State.DOWN)
    addresses = {host.address: "up" if name in up else "down" for name, host in scene.hosts.items()}

    def seen() -> bool:
        targets = _ask(scene, "targets")["activeTargets"]
        series = _ask(scene, "query", query="gpu_temp_c")["result"]
        return (
            len(targets) == 2 * len(addresses)
            and all(target["health"] == addresses[_host(target["labels"])] for target in targets)
            # A target is up a moment before its series can be queried.
            and {entry["metric"]["instance"] for entry in series}
            == {f"{address}:{METRICS_PORT}" for address, health in addresses.items() if health == "up"}
        )

    wait_for(f"Prometheus shows that {up or 'no host'} is up", seen, DEADLINE_SECONDS)


def polls(scene: Scene) -> int:
    """Return how often Prometheus was asked for its targets so far."""
    counter = 'prometheus_http_requests_total{code="200",handler="/api/v1/targets"} '
    lines = _get(f"{scene.prometheus.url}/metrics").text.splitlines()
    return sum(int(float(line.removeprefix(counter))) for line in lines if line.startswith(counter))


def wait_for_polls(scene: Scene, operator: Process, more: int) -> None:
    """Return when the operator has asked Prometheus so many times from now on, and the last pass but one is over."""
    wanted = polls(scene) + more
    wait_for(f"{more} more polls", lambda: polls(scene) >= wanted, DEADLINE_SECONDS, operator)


def nodes(scene: Scene) -> dict[str, Any]:
    """Return the GpuNodes as they are stored, by name."""
    return {item["metadata"]["name"]: item for item in scene.kubectl.json("get", "gpunodes")["items"]}


def phases(scene: Scene) -> dict[str, str | None]:
    return {name: item.get("status", {}).get("phase") for name, item in nodes(scene).items()}


def topology(scene: Scene) -> Any:  # noqa: ANN401 - JSON
    """Return the topology `cluster` as it is stored; empty while there is none."""
    found = scene.kubectl.json("get", "runtimetopologies", "--field-selector=metadata.name=cluster")["items"]
    return next(iter(found), {})


def status(scene: Scene) -> Any:  # noqa: ANN401 - JSON
    return topology(scene).get("status", {})


def condition(status: Mapping[str, Any], kind: str) -> tuple[str, str]:
    """Return a condition's status and reason; empty while there is none."""
    return next(((c["status"], c["reason"]) for c in status.get("conditions", ()) if c["type"] == kind), ("", ""))


def changes(status: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Return the changes of the mode, the oldest first, each as the mode before and the one after."""
    return [(entry.get("from"), entry["to"]) for entry in reversed(status["transitions"])]


def time(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


def events(scene: Scene, target: Mapping[str, Any], count: int) -> list[str]:
    """Wait for so many events on an object, and return all of their messages, the oldest first."""
    selector = f"--field-selector=involvedObject.uid={target['metadata']['uid']}"

    def told() -> list[Any] | None:
        found: list[Any] = scene.kubectl.json("get", "events", "--namespace=default", selector)["items"]
        return found if len(found) >= count else None

    found = wait_for(f"{count} events", told, DEADLINE_SECONDS)
    return [event["message"] for event in sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))]


def wait_for_mode(scene: Scene, operator: Process, mode: str, **expected: str) -> None:
    def reached() -> bool:
        return status(scene).get("mode") == mode and phases(scene) == expected

    wait_for(f"mode {mode} with {expected}", reached, DEADLINE_SECONDS, operator)


def wait_for_status(scene: Scene, operator: Process, **fields: object) -> Any:  # noqa: ANN401 - JSON
    """Return the status of the topology `cluster` once these fields are so; None is for a field that is left out."""

    def reached() -> Any:  # noqa: ANN401 - JSON
        found = status(scene)
        return found if all(found.get(name) == value for name, value in fields.items()) else None

    return wait_for(f"a status with {fields}", reached, DEADLINE_SECONDS, operator)


def _host(labels: Mapping[str, str]) -> str:
    return labels["instance"].partition(":")[0]


def _ask(scene: Scene, what: str, **params: str) -> Any:  # noqa: ANN401 - JSON
    return _get(f"{scene.prometheus.url}/api/v1/{what}", **params).json()["data"]


def _get(url: str, **params: str) -> httpx.Response:
    with httpx.Client(trust_env=False) as client:
        response = client.get(url, params=params)
    assert response.status_code == HTTPStatus.OK
    return response
