"""Command line of the lab: python -m lab --help."""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_ENDINGS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def main() -> None:
    """Run a command of the lab, and tidy up also when it is interrupted."""
    leave_tidily()
    from lab import commands  # noqa: PLC0415 - takes a while, in which Ctrl-C already has to work

    commands.run()


def leave_tidily() -> None:
    """From now on, let every signal that asks for the end tidy up first, and say so."""
    for number in _ENDINGS:
        signal.signal(number, _leave)


def _leave(number: int, _: FrameType | None) -> None:
    for ending in _ENDINGS:
        signal.signal(ending, signal.SIG_IGN)  # tidying up takes some seconds, and is not to be interrupted
    with suppress(OSError):  # the terminal may be gone
        # Not print: the signal may have come in the middle of one.
        os.write(sys.stderr.fileno(), f"\nEnded by {signal.Signals(number).name}, tidying up\n".encode())
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
