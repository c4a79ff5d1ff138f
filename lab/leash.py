"""Run a program that dies with its parent: python leash.py PARENT-PID PROGRAM [ARGUMENT...].

A program of its own rather than a hook between fork and exec, which is unsafe in a process that has threads. The kernel
sends the signal when the *thread* that started the program ends, so the lab starts its programs in its main thread.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Put on the leash, then become the program."""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == int(parent):  # else it died before the leash was on
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
