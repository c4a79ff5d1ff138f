"""There is one lab in the background at most, and its lock says so, also while it is on its way."""

import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from lab import background
from lab.exporters import State
from lab.processes import LabError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, file in {"_HOME": ".", "_LOG": "lab.log", "_PID": "pid", "_READY": "ready"}.items():
        monkeypatch.setattr(background, name, tmp_path / file)
    return tmp_path


@pytest.fixture
def lock(home: Path) -> Iterator[IO[str]]:
    with (home / "pid").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


@pytest.mark.parametrize(
    ("pid", "said"), [pytest.param("", "", id="on its way"), pytest.param("4711\n", r" \(pid 4711\)", id="up")]
)
def test_a_second_lab_is_refused_and_the_first_ones_folder_left_alone(
    home: Path, lock: IO[str], pid: str, said: str
) -> None:
    print(pid, end="", file=lock, flush=True)
    (home / "kubeconfig").touch()
    with pytest.raises(LabError, match=f"^The lab is up already, or on its way{said}; `make down` ends it$"):
        background.up(None)
    assert {file.name: file.read_text() for file in home.iterdir()} == {"pid": pid, "kubeconfig": ""}


def test_the_pid_of_a_lab_that_was_killed_is_nobodys(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "pid").write_text("1\n")
    background.down()
    assert capsys.readouterr().out == "The lab is not up.\n"
    with pytest.raises(LabError, match=r"^The lab is not up; `make up` starts it$"):
        background.switch("node-2", State.UP)
