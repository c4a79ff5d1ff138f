"""Child programs: started with a log, awaited with a deadline, and never left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

_LEASH = Path(__file__).with_name("leash.py")
_POLL_SECONDS = 0.1
_STOP_SECONDS = 15
_TAIL_LINES = 20

Found = TypeVar("Found")


class LabError(Exception):
    """Tell a person what is wrong and what to do about it."""


class Process:
    """A program in a session of its own, so that Ctrl-C reaches the lab alone and the lab stops things in order.

    If the lab is killed, the kernel kills its programs.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = Path(command[0]).name
        self.log = log
        self._command = [str(word) for word in command]
        self._env = os.environ | dict(env or {})
        self._cwd = cwd
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the id of the program that was started last."""
        return self._started().pid

    @property
    def running(self) -> bool:
        """Tell whether the program was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    def start(self) -> Self:
        """Start the program, or start it again; its log goes on."""
        leash = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid())]
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [*leash, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._env,
                cwd=self._cwd,
            )
        return self

    def wait(self, seconds: float | None = None) -> int:
        """Wait for the end of the program and return its exit status."""
        return self._started().wait(seconds)

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Ask the program to end, and insist after a while; do nothing where it has ended."""
        if self.running:
            self.signal(signal.SIGTERM)
            try:
                self.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End the program without a chance to tidy up, as a crash does."""
        if self.running:
            self.signal(signal.SIGKILL)
            self.wait()

    def tail(self) -> str:
        """Return the end of the program's log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program and all it has started."""
        os.killpg(self.pid, number)  # a session leader leads a process group too

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise LabError(f"{self.name} was not started")
        return self._child


def wait_for(what: str, probe: Callable[[], Found | None], seconds: float, *needed: Process) -> Found:
    """Return what the probe finds, once it finds something; fail at the deadline or when a needed program ends."""
    deadline = time.monotonic() + seconds
    while not (found := probe()):
        for process in needed:
            if not process.running:
                ended = f"{process.name} ended with status {process.wait()}"
                raise LabError(f"{ended} during the wait for this: {what}\n{process.tail()}")
        if time.monotonic() > deadline:
            logs = "".join(f"\nThe end of the log of {process.name}:\n{process.tail()}" for process in needed)
            raise LabError(f"{seconds:.0f} s were not enough for this: {what}{logs}")
        time.sleep(_POLL_SECONDS)
    return found
