"""The operator: kopf watches both kinds and wakes the loop; whichever ends, the process ends."""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import kopf
import kubernetes.aio as kubernetes

from controller import names
from controller.board import Board
from controller.kube import Kube, connect
from controller.prometheus import Prometheus
from controller.reconciler import Reconciler
from controller.server import Limits, Server
from controller.settings import Settings

logger = logging.getLogger(__name__)


async def run(settings: Settings) -> None:
    """Run until a signal asks to stop; raise whatever ends the loop before."""
    configuration = await connect()
    board = Board(asyncio.get_running_loop().time)
    async with (
        Kube(configuration) as kube,
        Prometheus(settings.source, settings.timeout_seconds, settings.series) as prometheus,
        _serving(board, settings),
    ):
        reconciler = Reconciler(kube, prometheus, settings.policy, settings.poll_seconds, board)
        # Before kopf starts, which cancels at its end what was started after it.
        loop = asyncio.create_task(reconciler.run(), name="reconcile")
        registry = _registry(kube, reconciler, configuration)

        @kopf.on.cleanup(registry=registry)
        async def end(**_: Any) -> None:  # noqa: ANN401 - kopf's many keywords
            """End the loop first: kopf would wait for the requests that a pass has in flight."""
            loop.cancel()

        watches = asyncio.create_task(
            kopf.operator(
                registry=registry,
                settings=_settings(),
                clusterwide=True,
                standalone=True,
            ),
            name="kopf",
        )
        logger.info("Asking Prometheus at %s every %g s", prometheus.url, settings.poll_seconds)
        await asyncio.wait({loop, watches}, return_when=asyncio.FIRST_COMPLETED)
        for task in (loop, watches):
            task.cancel()
        for outcome in await asyncio.gather(loop, watches, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


def _serving(board: Board, settings: Settings) -> AbstractAsyncContextManager[None]:
    if settings.listen_address is None:
        return nullcontext()
    limits = Limits(dead_after_seconds=settings.dead_after_seconds, valid_for_seconds=180)
    return Server(board, limits, serve_topology=settings.serve_topology).listen(*settings.listen_address)


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # both kinds are known by name, and no right to list CRDs is needed
    settings.posting.enabled = False  # events are posted where `kubectl describe` finds them
    return settings


def _registry(
    kube: Kube, reconciler: Reconciler, configuration: kubernetes.client.Configuration
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:  # noqa: ANN401 - kopf's many keywords
        """Let kopf be whom the port is."""
        header = configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or ""
        scheme, _space, token = str(header if isinstance(header, str) else await header).rpartition(" ")
        return kopf.ConnectionInfo(
            server=configuration.host,
            ca_path=configuration.ssl_ca_cert,
            insecure=not configuration.verify_ssl,
            scheme=scheme or None,
            token=token or None,
            certificate_path=configuration.cert_file,
            private_key_path=configuration.key_file,
        )

    def watch(plural: str) -> None:
        @kopf.on.event(names.GROUP, names.VERSION, plural, registry=registry, id=f"wake-for-{plural}")
        def wake(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401 - kopf's many keywords
            if kube.notice(plural, event["object"], deleted=event["type"] == "DELETED"):
                reconciler.wake()

    watch(names.GPU_NODES)
    watch(names.RUNTIME_TOPOLOGIES)
    return registry
