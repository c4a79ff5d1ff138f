"""What the loop shows to those who ask: the newest state, how old it is, and what holds it up."""

import asyncio
from collections.abc import Callable, Mapping

from controller.facts import RuntimeTopologyStatus


class Board:
    """One writer, the loop; many readers, who get the newest state and never a queue of old ones."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._passed_at = self._judged_at = clock()
        self._next_change = asyncio.Event()
        self.judged = False
        """Whether any state has been shown."""
        self.trouble = ""
        """What the API server did not do in the last pass, in words."""
        self.topologies: Mapping[str, RuntimeTopologyStatus] = {}
        """The statuses as they were decided last, by the topologies' names."""

    def show(self, topologies: Mapping[str, RuntimeTopologyStatus]) -> None:
        """Show what a pass has decided."""
        self._judged_at, self.judged = self._clock(), True
        if topologies != self.topologies:
            self.topologies = topologies
            self._next_change.set()
            self._next_change = asyncio.Event()

    def end_pass(self, trouble: str = "") -> None:
        """Note that a pass has come to its end, be it with trouble."""
        self._passed_at, self.trouble = self._clock(), trouble

    @property
    def next_change(self) -> asyncio.Event:
        """What is set at the first change from now on: take it before the state, so as to miss none."""
        return self._next_change

    @property
    def pass_age_seconds(self) -> float:
        """Return how long ago the last pass ended, or, before the first, the program was started."""
        return self._clock() - self._passed_at

    @property
    def judged_age_seconds(self) -> float:
        """Return how old the state is that is shown, or, before the first, how long ago the program was started."""
        return self._clock() - self._judged_at
