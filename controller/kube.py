"""The port to the API server: the objects as it has them, guarded status writes, and events."""

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import aiohttp
import kubernetes.aio as kubernetes
import yaml
from kubernetes.aio.client import ApiException

from controller import facts, names, resources
from controller.facts import Event, GpuNode, GpuNodeStatus, RuntimeTopology, RuntimeTopologyStatus
from controller.texts import bounded

logger = logging.getLogger(__name__)

REQUEST_SECONDS = 15.0
"""How long a single request may take before it counts as failed."""

RETRY_AFTER_LIMIT = 20
"""How many seconds an API server is left alone at most, whatever it asks for."""

_TEXT_LIMIT = 300
_MERGE_PATCH = "application/merge-patch+json"
_NO_KUBECONFIG = (kubernetes.config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError)
_FAILURES = (ApiException, aiohttp.ClientError, TimeoutError, OSError, ValueError)  # the last for garbled answers
_RENEW_SECONDS = 60.0
_EVENT_NAMESPACE = "default"  # where the API server wants events about objects without a namespace


Kind = TypeVar("Kind", bound=GpuNode | RuntimeTopology)


class ApiError(Exception):
    """The API server did not answer a request, or could not serve it now; the text says which and why."""

    def __init__(self, text: str, retry_after_seconds: float = 0) -> None:
        super().__init__(text)
        self.retry_after_seconds = retry_after_seconds
        """How long the API server asks to be left alone."""


class OutdatedError(ApiError):
    """The object has changed or gone since it was read."""


class RefusedError(ApiError):
    """The API server will not do this however often it is asked, while other requests may succeed."""


class KubeConfigError(Exception):
    """No way to an API server is known."""


async def connect() -> kubernetes.client.Configuration:
    """Return how to reach the API server: by KUBECONFIG or ~/.kube/config, else as a pod of the cluster."""
    configuration = kubernetes.client.Configuration()
    try:
        await _load(configuration)
    except _NO_KUBECONFIG as error:
        why = f"{_kubeconfig()!r} is no kubeconfig" if isinstance(error, TypeError) else error
        text = f"No Kubernetes cluster is configured (KUBECONFIG, or run it as a pod): {why}"
        raise KubeConfigError(bounded(text, _TEXT_LIMIT)) from None
    return configuration


def _kubeconfig() -> str:
    return os.environ.get("KUBECONFIG", "~/.kube/config")


def _any_exists(files: str) -> bool:
    return any(Path(file).expanduser().exists() for file in files.split(os.pathsep) if file)


async def list_nodes() -> tuple[GpuNode, ...]:
    """Return the GpuNodes of the cluster that `connect` finds, by name; raise ApiError or KubeConfigError."""
    async with Kube(await connect()) as kube:
        return await kube.nodes()


def renew(configuration: kubernetes.client.Configuration) -> None:
    """Read the credentials anew before they are used next: they were refused."""
    hook = configuration.refresh_api_key_hook
    if isinstance(hook, _Renewal):
        hook.due = 0


class _Renewal:
    """Read the credentials anew every minute, because tokens on disk are replaced, and after they were refused."""

    def __init__(self) -> None:
        self.due = time.monotonic() + _RENEW_SECONDS

    async def __call__(self, configuration: kubernetes.client.Configuration) -> None:
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + _RENEW_SECONDS
        try:
            await _load(configuration)
        except _NO_KUBECONFIG as error:
            logger.warning("The credentials for the API server stay, as they cannot be read anew: %s", error)
            configuration.refresh_api_key_hook = self  # type: ignore[assignment]


async def _load(configuration: kubernetes.client.Configuration) -> None:
    if "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
        kubernetes.config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    elif not _any_exists(_kubeconfig()):  # the client only warns of that, and then complains about an empty file
        raise FileNotFoundError(f"there is no file {_kubeconfig()!r}")
    else:
        await kubernetes.config.load_kube_config(_kubeconfig(), client_configuration=configuration)  # type: ignore[no-untyped-call]
    configuration.refresh_api_key_hook = _Renewal()  # type: ignore[assignment] # the client has no type for it


class Kube:
    """What the API server has, and the only writer of both kinds' status.

    Objects are listed again only after something has changed them: a watch says so, or a write was refused. Watches
    only wake; an object that the API server does not have never stays here.
    """

    def __init__(self, configuration: kubernetes.client.Configuration) -> None:
        self._configuration = configuration
        self._client = kubernetes.client.ApiClient(configuration)
        self._objects = kubernetes.client.CustomObjectsApi(self._client)
        self._core = kubernetes.client.CoreV1Api(self._client)
        self._nodes = _Shelf(names.GPU_NODES, resources.parse_node)
        self._topologies = _Shelf(names.RUNTIME_TOPOLOGIES, resources.parse_topology)
        self._shelves: dict[str, _Shelf[Any]] = {shelf.plural: shelf for shelf in (self._nodes, self._topologies)}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]

    def notice(self, plural: str, resource: Mapping[str, Any], *, deleted: bool) -> bool:
        """Take note of what a watch shows; tell whether it is news, and not the echo of a write of ours."""
        metadata = resource["metadata"]
        shelf = self._shelves[plural]
        held = shelf.stored.get(metadata["name"])
        if not deleted and held and held["metadata"]["resourceVersion"] == metadata["resourceVersion"]:
            return False
        shelf.stale = True
        return True

    def distrust(self) -> None:
        """List everything again at the next look."""
        for shelf in self._shelves.values():
            shelf.stale = True

    async def nodes(self) -> tuple[GpuNode, ...]:
        """Return all GpuNodes, by name."""
        return await self._all(self._nodes)

    async def topologies(self) -> tuple[RuntimeTopology, ...]:
        """Return all RuntimeTopologies, by name."""
        return await self._all(self._topologies)

    async def is_served(self) -> bool:
        """Tell whether discovery shows both kinds, which is some moments after the CRDs are there."""
        try:
            served: Any = await self._objects.get_api_resources(
                names.GROUP, names.VERSION, _request_timeout=REQUEST_SECONDS
            )
        except _FAILURES:
            return False  # the loop will say what is wrong
        return self._shelves.keys() <= {resource.name for resource in served.resources}

    async def create_default_topology(self) -> None:
        """Create the topology over all cards; fine where somebody else was quicker."""
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.RUNTIME_TOPOLOGY,
            "metadata": {"name": names.DEFAULT_TOPOLOGY},
            "spec": {},
        }
        self._topologies.stale = True
        try:
            await self._objects.create_cluster_custom_object(
                names.GROUP,
                names.VERSION,
                names.RUNTIME_TOPOLOGIES,
                body,
                field_manager=names.FIELD_MANAGER,
                _request_timeout=REQUEST_SECONDS,
            )
        except _FAILURES as error:
            if isinstance(error, ApiException) and error.status == HTTPStatus.CONFLICT:
                return  # it is there
            raise self._failed(error, f"create runtimetopologies {names.DEFAULT_TOPOLOGY}") from None

    async def write(self, plural: str, name: str, status: GpuNodeStatus | RuntimeTopologyStatus) -> None:
        """Write a status, unless the object has changed since it was read: then it is listed again first.

        A merge patch guarded by the resource version: conditions of other writers stay, fields that are gone are
        removed, and an object whose stored spec no longer fits the schema can be written too.
        """
        shelf = self._shelves[plural]
        held = shelf.stored[name]
        before = held.get("status") or {}
        after = resources.dump_status(status)
        own = set(names.Condition)
        after["conditions"] += [entry for entry in before.get("conditions") or () if entry["type"] not in own]
        removed = {field: None for field in before if field not in after}
        body = {
            "metadata": {"resourceVersion": held["metadata"]["resourceVersion"]},
            "status": {**removed, **{field: value for field, value in after.items() if before.get(field) != value}},
        }
        try:
            written: Any = await self._objects.patch_cluster_custom_object_status(
                names.GROUP,
                names.VERSION,
                plural,
                name,
                body,
                field_manager=names.FIELD_MANAGER,
                _content_type=_MERGE_PATCH,
                _request_timeout=REQUEST_SECONDS,
            )
        except _FAILURES as error:
            shelf.stale = True
            raise self._failed(error, f"patch {plural}/status of {name}") from None
        shelf.put(written, status)

    async def post(self, kind: str, target: GpuNode | RuntimeTopology, event: Event, now: facts.Instant) -> None:
        """Post an event that `kubectl describe` shows on the object."""
        body = kubernetes.client.CoreV1Event(
            metadata=kubernetes.client.V1ObjectMeta(generate_name=f"{target.name}.", namespace=_EVENT_NAMESPACE),
            # No namespace: kubectl looks for exactly that on objects that have none.
            involved_object=kubernetes.client.V1ObjectReference(
                api_version=names.API_VERSION, kind=kind, name=target.name, uid=target.uid
            ),
            type="Warning" if event.warning else "Normal",
            reason=event.reason,
            message=event.message[:1024],
            first_timestamp=now.wall,
            last_timestamp=now.wall,
            count=1,
            source=kubernetes.client.V1EventSource(component=names.FIELD_MANAGER),
        )
        try:
            await self._core.create_namespaced_event(_EVENT_NAMESPACE, body, _request_timeout=REQUEST_SECONDS)
        except _FAILURES as error:
            raise self._failed(error, "create events") from None

    async def _all(self, shelf: "_Shelf[Kind]") -> tuple[Kind, ...]:
        if shelf.stale:
            shelf.stale = False  # before the request: what changes meanwhile makes it stale again
            try:
                listed: Any = await self._objects.list_cluster_custom_object(
                    names.GROUP, names.VERSION, shelf.plural, _request_timeout=REQUEST_SECONDS
                )
                shelf.replace(listed["items"])
            except (*_FAILURES, LookupError, TypeError) as error:
                shelf.stale = True
                if isinstance(error, ApiException) and error.status == HTTPStatus.NOT_FOUND:
                    raise ApiError(
                        f"The API server does not serve {shelf.plural} of {names.API_VERSION}: apply the CRDs"
                    ) from None
                raise self._failed(error, f"list {shelf.plural}") from None
        return tuple(shelf.parsed[name] for name in sorted(shelf.parsed))

    def _failed(self, error: Exception, doing: str) -> ApiError:
        if isinstance(error, ApiException) and error.status == HTTPStatus.UNAUTHORIZED:
            renew(self._configuration)
        return _translated(error, doing)


class _Shelf(Generic[Kind]):
    """The objects of one kind as they were listed or written last, each read but once."""

    def __init__(self, plural: str, parse: Callable[[resources.Json], Kind]) -> None:
        self.plural = plural
        self.stale = True
        self._parse = parse
        self.stored: dict[str, resources.Json] = {}
        self.parsed: dict[str, Kind] = {}

    def put(self, resource: resources.Json, status: GpuNodeStatus | RuntimeTopologyStatus | None = None) -> None:
        """Keep an object; with the status that was written, where an older CRD may have dropped a part of it.

        What it dropped must not look like a change, or it would be written again and again.
        """
        name = resource["metadata"]["name"]
        parsed: Any = self._parse(resource)
        self.stored[name], self.parsed[name] = resource, replace(parsed, status=status) if status else parsed

    def replace(self, listed: Iterable[resources.Json]) -> None:
        """Keep these objects alone; one that has not changed stays as it was read."""
        stored = {resource["metadata"]["name"]: resource for resource in listed}
        self.parsed = {
            name: self.parsed[name]
            if name in self.stored and _identity(self.stored[name]) == _identity(resource)
            else self._parse(resource)
            for name, resource in stored.items()
        }
        self.stored = stored


def _identity(resource: resources.Json) -> tuple[str, str]:
    metadata = resource["metadata"]
    return metadata["uid"], metadata["resourceVersion"]


def _translated(error: Exception, doing: str) -> ApiError:
    if not isinstance(error, ApiException):
        cause = f"no answer within {REQUEST_SECONDS:g} s" if isinstance(error, TimeoutError) else str(error)
        return ApiError(f"Cannot {doing}: {cause or type(error).__name__}")
    text = f"Cannot {doing}: {error.status} {error.reason}: {_message(error)}"
    match error.status:
        case HTTPStatus.NOT_FOUND | HTTPStatus.CONFLICT:
            return OutdatedError(text)
        case HTTPStatus.BAD_REQUEST | HTTPStatus.FORBIDDEN | HTTPStatus.UNPROCESSABLE_ENTITY:
            return RefusedError(text)
        case _:
            asked = str((error.headers or {}).get("Retry-After", ""))
            return ApiError(text, retry_after_seconds=min(int(asked), RETRY_AFTER_LIMIT) if asked.isdecimal() else 0)


def _message(error: ApiException) -> str:
    """Return what the API server says in its Status object, or the answer as it is."""
    body = str(error.body)
    try:
        return bounded(str(json.loads(body)["message"]), _TEXT_LIMIT)
    except (ValueError, LookupError, TypeError):
        return bounded(body, _TEXT_LIMIT)


@contextmanager
def translating(doing: str) -> Iterator[None]:
    """Turn what a request within raises into the one of ApiError's kinds that it is."""
    try:
        yield
    except _FAILURES as error:
        raise _translated(error, doing) from None
