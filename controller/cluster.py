"""The port of the commands to the API server: read, wait for a change, apply."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import kubernetes.aio as kubernetes
from kubernetes.aio.client import ApiException

from controller import names
from controller.kube import REQUEST_SECONDS, ApiError, translating
from controller.resources import Json

IMPORT_MANAGER = "gpu-topology-import"
"""The field manager of what `import --apply` declares."""

WATCH_SECONDS = 240
"""How long a watch may show nothing before everything is read again."""

ATTEMPTS = 4
"""How often a request is made of an API server that asks to be left alone for a moment."""

_APPLY = "application/apply-patch+yaml"


class Cluster:
    """An API server that has both kinds; each request may raise ApiError."""

    def __init__(self, configuration: kubernetes.client.Configuration) -> None:
        self._client = kubernetes.client.ApiClient(configuration)
        self._objects = kubernetes.client.CustomObjectsApi(self._client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]

    async def read(self, plural: str, name: str = "") -> tuple[list[Json], str]:
        """Return all objects of a kind, or the one of that name, and the version from which a watch goes on."""
        listed = await _patiently(
            f"list {plural}",
            self._objects.list_cluster_custom_object,
            names.GROUP,
            names.VERSION,
            plural,
            field_selector=_only(name),
            _request_timeout=REQUEST_SECONDS,
        )
        return listed["items"], listed["metadata"]["resourceVersion"]

    async def changed(self, versions: Mapping[tuple[str, str], str]) -> None:
        """Wait until something may have changed: versions are those of `read`, by its arguments."""
        watches = [asyncio.create_task(self._watch(*what, version)) for what, version in versions.items()]
        try:
            ended, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
        for watch in ended:
            watch.result()

    async def apply(self, plural: str, manifest: Json, *, dry_run: bool) -> Json | None:
        """Apply a manifest on the server's side, or only try to; return the object, None for a new one."""
        name = manifest["metadata"]["name"]
        applied: Json | None = await _patiently(
            f"apply {plural} {name}",
            self._objects.patch_cluster_custom_object,
            names.GROUP,
            names.VERSION,
            plural,
            name,
            dict(manifest),
            dry_run="All" if dry_run else None,
            field_manager=IMPORT_MANAGER,
            field_validation="Strict",
            _content_type=_APPLY,
            _request_timeout=REQUEST_SECONDS,
        )
        return applied or None  # the client reads no answer of 201

    async def _watch(self, plural: str, name: str, version: str) -> None:
        with translating(f"watch {plural}"):
            response = await self._objects.list_cluster_custom_object_without_preload_content(
                names.GROUP,
                names.VERSION,
                plural,
                field_selector=_only(name),
                resource_version=version,
                watch=True,
                timeout_seconds=WATCH_SECONDS,
                _request_timeout=WATCH_SECONDS + REQUEST_SECONDS,
            )
            try:
                if response.status != HTTPStatus.OK:
                    raise ApiException(response.status, response.reason, await response.text())
                await response.content.read(1)  # whatever it is, also that the version is too old: read all again
            finally:
                response.close()


async def _patiently(doing: str, request: Callable[..., Awaitable[Any]], *args: object, **options: object) -> Any:  # noqa: ANN401 - JSON
    """Make a request, and again where the API server only asks for a moment, as it does while a CRD is new."""
    for _ in range(ATTEMPTS - 1):
        try:
            with translating(doing):
                return await request(*args, **options)
        except ApiError as error:
            if not error.retry_after_seconds:
                raise
            await asyncio.sleep(error.retry_after_seconds)
    with translating(doing):
        return await request(*args, **options)


def _only(name: str) -> str | None:
    return f"metadata.name={name}" if name else None
