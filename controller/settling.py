"""Anti-flapping: when a mode may follow another."""

from dataclasses import dataclass

from controller.facts import Mode


@dataclass(frozen=True, slots=True)
class Settlement:
    """The mode to publish, and the one that waits for the window's end."""

    mode: Mode
    pending: Mode | None = None
    remaining_seconds: float = 0
    """Until the pending mode may be published."""


def settle(current: Mode | None, candidate: Mode, since_seconds: float, window_seconds: float) -> Settlement:
    """Decide whether the mode changes now, given how long ago it changed last.

    The candidate comes from this moment's facts, so a change that was only wanted during the window is forgotten by
    itself. A topology without a mode takes its first one at once.
    """
    if current is None or candidate is current or since_seconds >= window_seconds:
        return Settlement(candidate)
    return Settlement(current, pending=candidate, remaining_seconds=window_seconds - since_seconds)
