"""What the lab starts ends with it, whatever ends the lab; and no wait is without an end."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.processes import LabError, Process, wait_for

ROOT = Path(__file__).parents[2]

A_LAB = """
import signal, sys, time
from pathlib import Path
from lab.__main__ import leave_tidily
from lab.processes import Process

leave_tidily()
program = Process(["/bin/sleep", "600"], Path(sys.argv[1])).start()
try:
    print(program.pid, flush=True)
    signal.pause()
finally:
    print("The end begins", flush=True)
    time.sleep(float(sys.argv[2]))
    program.stop()
    print("All is tidied up", flush=True)
"""


@contextmanager
def a_lab(folder: Path, *, tidying_seconds: float = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a lab with one program in a process of its own; return it, with the program's pid."""
    command = [sys.executable, "-c", A_LAB, str(folder / "log"), str(tidying_seconds)]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as lab:
        assert lab.stdout
        try:
            yield lab, int(lab.stdout.readline())
        finally:
            lab.kill()


def has_ended(pid: int) -> bool:
    """Tell whether a process is gone, or waits only for its new parent to take note."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT], ids=lambda number: number.name
)
def test_a_signal_ends_the_lab_tidily_and_with_a_word(tmp_path: Path, number: signal.Signals) -> None:
    with a_lab(tmp_path) as (lab, pid):
        lab.send_signal(number)
        output = lab.communicate()
        assert output == ("The end begins\nAll is tidied up\n", f"\nEnded by {number.name}, tidying up\n")
        assert (lab.returncode, has_ended(pid)) == (128 + number, True)


def test_an_impatient_second_signal_does_not_stop_the_tidying_up(tmp_path: Path) -> None:
    with a_lab(tmp_path, tidying_seconds=0.5) as (lab, pid):
        assert lab.stdout
        lab.send_signal(signal.SIGINT)
        assert lab.stdout.readline() == "The end begins\n"
        lab.send_signal(signal.SIGINT)
        assert lab.stdout.read() == "All is tidied up\n"
        assert (lab.wait(), has_ended(pid)) == (128 + signal.SIGINT, True)


def test_the_programs_of_a_lab_that_is_killed_die_with_it(tmp_path: Path) -> None:
    with a_lab(tmp_path) as (lab, pid):
        assert not has_ended(pid)
        lab.kill()
        wait_for("the program has ended", lambda: has_ended(pid), 10)


def test_a_program_that_will_not_end_is_killed(tmp_path: Path) -> None:
    stubborn = Process(["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], tmp_path / "log")
    stubborn.start()
    wait_for("the program is deaf", lambda: "ready" in stubborn.tail(), 10, stubborn)
    stubborn.stop(seconds=0.1)
    assert (stubborn.running, stubborn.wait()) == (False, -signal.SIGKILL)


def test_a_wait_returns_what_it_waited_for() -> None:
    found = iter([None, "", "here"])
    assert wait_for("it is here", lambda: next(found), 10) == "here"


def test_a_wait_that_takes_too_long_says_for_what_and_shows_the_log(tmp_path: Path) -> None:
    program = Process(["/bin/sh", "-c", "echo I am busy; exec sleep 600"], tmp_path / "log").start()
    try:
        wait_for("the program is busy", lambda: "busy" in program.tail(), 10)
        with pytest.raises(LabError) as failure:
            wait_for("the moon is full", lambda: None, 0, program)
    finally:
        program.stop()
    assert str(failure.value) == (
        "0 s were not enough for this: the moon is full\nThe end of the log of sh:\n  I am busy"
    )


def test_a_wait_ends_with_a_program_that_it_needs(tmp_path: Path) -> None:
    program = Process(["/bin/sh", "-c", "echo No disk left; exit 3"], tmp_path / "log").start()
    with pytest.raises(LabError) as failure:
        wait_for("the moon is full", lambda: None, 60, program)
    assert str(failure.value) == "sh ended with status 3 during the wait for this: the moon is full\n  No disk left"
