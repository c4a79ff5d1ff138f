"""An event loop on which waiting takes no time: its clock jumps to the next thing to do."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

from typing_extensions import override


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Run what is ready, then move the clock to the next timer; for code that waits on nothing but timers and tasks."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Selector(self._advance))

    @override
    def time(self) -> float:
        return self.now

    def _advance(self, seconds: float) -> None:
        self.now += seconds


class _Selector(selectors.SelectSelector):
    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("nothing will ever happen: every task waits for another")
        if not ready and timeout:
            self._advance(timeout)
        return ready


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main)
