"""An API server and a Prometheus in memory, on virtual time: they do what the real ones do, and fail when told to."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubernetes.aio.client import ApiException
from typing_extensions import override

from controller.facts import Observation, Sample, SourceFailure, Survey, Target, TargetHealth
from controller.names import API_VERSION, GPU_NODE, GPU_NODES, RUNTIME_TOPOLOGIES, RUNTIME_TOPOLOGY, Reason
from controller.prometheus import Prometheus
from tests.history.history import ADDED, DELETED, MODIFIED, Revision

KINDS = {GPU_NODES: GPU_NODE, RUNTIME_TOPOLOGIES: RUNTIME_TOPOLOGY}
LATENCY_SECONDS = 0.01
SCRAPE_SECONDS = 15.0


class ScriptedApi:
    """Stand in for the client's CustomObjectsApi and CoreV1Api as far as `kube.Kube` uses them.

    What it has stored is never changed in place, so it is handed out as it is.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.revisions: list[Revision] = []
        self.faults: list[int] = []
        """The status codes that the next requests get, the last one first."""
        self.watch: Callable[[str, Mapping[str, Any], bool], None] | None = None
        self._versions = iter(range(1, 1_000_000))

    # ---- what people do

    def put(self, plural: str, name: str, spec: Mapping[str, Any]) -> None:
        """Create an object, or change its spec."""
        held = self.objects.get((plural, name))
        if held is None:
            metadata = {"name": name, "uid": f"{plural}-{name}-{len(self.revisions)}", "generation": 1}
            self._store(plural, {"metadata": metadata, "spec": {**spec}}, ADDED)
        elif held["spec"] != spec:
            metadata = {**held["metadata"], "generation": held["metadata"]["generation"] + 1}
            self._store(plural, {**held, "metadata": metadata, "spec": {**spec}}, MODIFIED)

    def touch(self, plural: str, name: str) -> None:
        """Change an object without changing what it declares, as other programs do."""
        if held := self.objects.get((plural, name)):
            self._store(
                plural,
                {**held, "metadata": {**held["metadata"], "labels": {"touched": str(len(self.revisions))}}},
                MODIFIED,
            )

    def remove(self, plural: str, name: str) -> None:
        """Delete an object."""
        if held := self.objects.pop((plural, name), None):
            metadata = {**held["metadata"], "resourceVersion": str(next(self._versions))}
            self._tell(plural, {**held, "metadata": metadata}, DELETED)

    # ---- what the operator asks for

    async def list_cluster_custom_object(self, _group: str, _version: str, plural: str, **_: Any) -> dict[str, Any]:  # noqa: ANN401
        await self._requested()
        return {"items": [held for (kind, _name), held in self.objects.items() if kind == plural]}

    async def create_cluster_custom_object(
        self,
        _group: str,
        _version: str,
        plural: str,
        body: Mapping[str, Any],
        **_: Any,  # noqa: ANN401
    ) -> None:
        await self._requested()
        name = body["metadata"]["name"]
        if (plural, name) in self.objects:
            raise ApiException(409, "Conflict")
        self.put(plural, name, body["spec"])

    async def patch_cluster_custom_object_status(
        self,
        _group: str,
        _version: str,
        plural: str,
        name: str,
        body: Mapping[str, Any],
        **_: Any,  # noqa: ANN401
    ) -> dict[str, Any]:
        await self._requested()
        held = self.objects.get((plural, name))
        if held is None:
            raise ApiException(404, "Not Found")
        if held["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ApiException(409, "Conflict")
        merged = {**held.get("status", {}), **body["status"]}
        status = {field: value for field, value in merged.items() if value is not None}
        if status != held.get("status"):
            self._store(plural, {**held, "status": status}, MODIFIED)
        return self.objects[plural, name]

    async def create_namespaced_event(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
        await self._requested()

    async def _requested(self) -> None:
        await asyncio.sleep(LATENCY_SECONDS)
        if self.faults:
            code = self.faults.pop()
            error = ApiException(code, "scripted")
            error.headers = {"Retry-After": "3"} if code == 429 else {}
            raise error

    def _store(self, plural: str, resource: dict[str, Any], event: str) -> None:
        metadata = {**resource["metadata"], "resourceVersion": str(next(self._versions))}
        stored = {"apiVersion": API_VERSION, "kind": KINDS[plural], **resource, "metadata": metadata}
        self.objects[plural, metadata["name"]] = stored
        self._tell(plural, stored, event)

    def _tell(self, plural: str, resource: dict[str, Any], event: str) -> None:
        seen = asyncio.get_running_loop().time()
        self.revisions.append(Revision(plural, event, resource, seen))
        if self.watch:
            self.watch(plural, resource, event == DELETED)


class ScriptedPrometheus(Prometheus):
    """Show of each card what the script says."""

    def __init__(self) -> None:
        self.sights: dict[str, str] = {}
        """By card: up, down, bare (up without series), waiting; a card that is not here has no target."""
        self.failing = False
        self._scrapes = 0

    @override
    async def survey(self) -> Observation:
        await asyncio.sleep(LATENCY_SECONDS)
        if self.failing:
            return SourceFailure(Reason.TIMED_OUT, "scripted")
        self._scrapes += 1
        return Survey(tuple(self._shown_targets()), tuple(self._shown_samples()))

    def _shown_targets(self) -> Iterator[Target]:
        health = {"up": TargetHealth.UP, "bare": TargetHealth.UP, "down": TargetHealth.DOWN}
        for card, sight in self.sights.items():
            labels = {"job": "gpu", "instance": f"{card}:9182"}
            seen = health.get(sight, TargetHealth.UNKNOWN)
            scraped = str(self._scrapes)
            yield Target(f"http://{card}:9182/metrics", card, 9182, labels, seen, "", scraped, SCRAPE_SECONDS)

    def _shown_samples(self) -> Iterator[Sample]:
        for card, sight in self.sights.items():
            if sight == "up":
                yield Sample("gpu_temp_c", {"job": "gpu", "instance": f"{card}:9182"}, 40.0 + self._scrapes % 7)
