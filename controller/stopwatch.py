"""Durations since a stamp in status, measured on our own clock as long as this process saw the stamp made."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from controller.facts import Instant

Mark = tuple[str, str, datetime]
"""An object's uid, what is stamped, and the stamp."""

STAMP_SECONDS = 1
"""The resolution of stamps in status: what is stamped may have happened up to this much later."""


class Stopwatch:
    """The durations of one pass; `marks` is what the next pass needs.

    A jump of the wall clock changes nothing. Only after a restart it must be believed: then a duration is what lies
    between stamp and wall clock, less what the stamp's rounding may hide, so that no window is ever cut short.
    """

    def __init__(self, marks: Mapping[Mark, float], now: Instant) -> None:
        self._old, self._now = marks, now
        self.marks: dict[Mark, float] = {}
        self.stamp = now.wall.replace(microsecond=0)
        """This moment in whole seconds, as Kubernetes writes times."""

    def seconds_since(self, uid: str, what: str, at: datetime) -> float:
        """Return how long ago a stamp was made.

        A stamp is remembered if it was started in the pass that made it, and is asked for in each pass after.
        """
        mark = (uid, what, at)
        made = self._old.get(mark)
        if made is None:
            made = self._now.mono - max((self._now.wall - at).total_seconds() - STAMP_SECONDS, 0)
        self.marks[mark] = made
        return self._now.mono - made

    def start(self, uid: str, what: str, at: datetime | None = None) -> None:
        """Remember this moment's stamp, or another, as made now, also where it has been made before."""
        self.marks[uid, what, at or self.stamp] = self._now.mono

    def stamp_in(self, seconds: float) -> datetime:
        """Return the stamp of a moment to come, not before it."""
        return (self._now.wall + timedelta(seconds=seconds, microseconds=999_999)).replace(microsecond=0)
