"""The operator: watches wake the loop; if either ends, the process ends, and so it does in time when it is told to."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from controller import watches
from controller.board import Board
from controller.kube import Kube, connect
from controller.prometheus import Prometheus
from controller.reconciler import Reconciler
from controller.server import Limits, Server
from controller.settings import Settings

logger = logging.getLogger(__name__)

END_SECONDS = 4.0
"""How long the process may take to end when it is told to, whatever it waits for."""


async def run(settings: Settings) -> None:
    """Run until a signal asks to stop; raise whatever ends the loop before."""
    told_to_end = _listen_for_the_end()
    configuration = await connect()
    board = Board(asyncio.get_running_loop().time)
    async with (
        Kube(configuration) as kube,
        Prometheus(settings.source, settings.timeout_seconds, settings.series) as prometheus,
        _serving(board, settings),
    ):
        reconciler = Reconciler(kube, prometheus, settings.policy, settings.poll_seconds, board)

        def notice(plural: str, resource: Mapping[str, Any], deleted: bool) -> None:  # noqa: FBT001 - a callback
            if kube.notice(plural, resource, deleted=deleted):
                reconciler.wake()

        tasks = (
            asyncio.create_task(reconciler.run(), name="reconcile"),
            asyncio.create_task(watches.keep(kube, configuration, reconciler.in_touch, notice), name="watches"),
            asyncio.create_task(told_to_end.wait(), name="end"),
        )
        logger.info("Asking Prometheus at %s every %g s", prometheus.url, settings.poll_seconds)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


def _serving(board: Board, settings: Settings) -> AbstractAsyncContextManager[None]:
    if settings.listen_address is None:
        return nullcontext()
    limits = Limits(dead_after_seconds=settings.dead_after_seconds, valid_for_seconds=settings.valid_for_seconds)
    return Server(board, limits, serve_topology=settings.serve_topology).listen(*settings.listen_address)


def _listen_for_the_end() -> asyncio.Event:
    """Return what SIGTERM and SIGINT set; a process that does not end in time by itself is ended without more ado."""
    told = asyncio.Event()

    def end(number: signal.Signals) -> None:
        if told.is_set():
            return
        logger.info("Ending, as %s asks", number.name)
        told.set()
        deadline = threading.Timer(END_SECONDS, os._exit, (0,))
        deadline.daemon = True
        deadline.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    return told
