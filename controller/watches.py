"""The watches: kopf, in a thread and on an event loop of its own, tells what changes on the API server.

kopf cancels at its end whatever was started on its event loop meanwhile, takes the process' signals, and ends when one
of its watches does. In a thread of its own it can do all that, and be started anew, without harm to the loop.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import kopf
import kubernetes.aio as kubernetes

from controller import names
from controller.kube import Kube, renew

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 5.0
"""How long watches that broke off are left alone; the loop lists everything from time to time meanwhile."""
_END_SECONDS = 2.0
_REQUEST_SECONDS = 15.0

Notice = Callable[[str, Mapping[str, Any], bool], None]
"""Take an object of a kind, and whether it was deleted."""


async def keep(
    kube: Kube, configuration: kubernetes.client.Configuration, in_touch: asyncio.Event, notice: Notice
) -> None:
    """Keep both kinds watched for ever.

    kopf looks only once which kinds the API server serves: it is started when both are there, and all of it again when
    one watch has died.
    """
    logging.getLogger("kopf").setLevel(logging.CRITICAL)  # what it has trouble with, the loop and this here tell once
    while True:
        await in_touch.wait()
        if await kube.is_served():
            logger.warning("The watches broke off, and begin anew: %s", await _watch(configuration, notice))
        await asyncio.sleep(AGAIN_SECONDS)


async def login(configuration: kubernetes.client.Configuration) -> kopf.ConnectionInfo:
    """Let kopf be whom the port is."""
    header = configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or ""
    scheme, _space, token = str((header if isinstance(header, str) else await header) or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


async def _watch(configuration: kubernetes.client.Configuration, notice: Notice) -> str:
    """Watch until that ends, and return why."""
    ours = asyncio.get_running_loop()
    ended: asyncio.Future[str] = ours.create_future()
    stops: list[Callable[[], object]] = []

    def tell(callback: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # our loop has ended before this thread
            ours.call_soon_threadsafe(callback, *arguments)

    async def operate() -> None:
        theirs, stop = asyncio.get_running_loop(), asyncio.Event()
        stops.append(lambda: theirs.call_soon_threadsafe(stop.set))
        registry = _registry(configuration, lambda *seen: tell(notice, *seen))
        await kopf.operator(registry=registry, settings=_settings(), clusterwide=True, standalone=True, stop_flag=stop)

    def end(why: str) -> None:
        if not ended.done():
            ended.set_result(why)

    def body() -> None:
        why = "kopf ended"
        try:
            asyncio.run(operate())
        except Exception as error:  # noqa: BLE001 - whatever it is, the watches begin anew
            why = f"{type(error).__name__}: {error}"
        tell(end, why)

    threading.Thread(target=body, name="watches", daemon=True).start()
    try:
        return await asyncio.shield(ended)
    finally:
        for stop in stops:
            with suppress(RuntimeError):  # it has ended already
                stop()
        await asyncio.wait({ended}, timeout=_END_SECONDS)


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # both kinds are known by name, and no right to list CRDs is needed
    settings.posting.enabled = False  # events are posted where `kubectl describe` finds them
    settings.networking.request_timeout = _REQUEST_SECONDS
    settings.networking.error_backoffs = (1, 2, 5)  # then begin anew, with what the kubeconfig says by then
    settings.process.ultimate_exiting_timeout = None  # this process has an end of its own
    return settings


def _registry(configuration: kubernetes.client.Configuration, notice: Notice) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def again(**_: Any) -> kopf.ConnectionInfo:  # noqa: ANN401 - kopf's many keywords
        renew(configuration)  # kopf asks again only when it was refused
        return await login(configuration)

    def watch(plural: str) -> None:
        @kopf.on.event(names.GROUP, names.VERSION, plural, registry=registry, id=f"wake-for-{plural}")
        async def wake(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401 - kopf's many keywords
            notice(plural, event["object"], event["type"] == "DELETED")

    watch(names.GPU_NODES)
    watch(names.RUNTIME_TOPOLOGIES)
    return registry
