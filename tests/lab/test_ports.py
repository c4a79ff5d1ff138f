"""An address that is taken is named, with who has it."""

import os
import socket
from pathlib import Path

import pytest

from lab.ports import ensure_free, free_port
from lab.processes import LabError

HOST = "127.1.9.1"


@pytest.mark.parametrize("bound", [pytest.param(HOST, id="there"), pytest.param("0.0.0.0", id="everywhere")])  # noqa: S104
def test_every_taken_address_is_named_with_its_holder(bound: str) -> None:
    with socket.socket() as first, socket.socket() as second:
        for listener in (first, second):
            listener.bind((bound, 0))
            listener.listen()
        ports = [listener.getsockname()[1] for listener in (first, second)]
        with pytest.raises(LabError) as refusal:
            ensure_free([(HOST, ports[0]), (HOST, free_port(HOST)), (HOST, ports[1])])
    holder = f"held by {Path('/proc/self/comm').read_text().strip()} (pid {os.getpid()})"
    assert str(refusal.value).splitlines() == [
        "These addresses are needed and taken (by another lab? `make down` ends it):",
        *(f"  {HOST}:{port}, {holder}" for port in ports),
    ]


def test_an_address_is_free_again_once_its_holder_closes_it() -> None:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        address = listener.getsockname()
    ensure_free([address])


def test_an_address_of_another_machine_is_not_called_taken() -> None:
    with pytest.raises(LabError, match=r"^Nothing can listen on 192\.0\.2\.1:9090 here: "):
        ensure_free([("192.0.2.1", 9090)])
