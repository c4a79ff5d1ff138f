"""Addresses to listen on: a free one, or a clear word about who has it."""

import errno
import socket
from collections.abc import Iterable
from pathlib import Path

from lab.processes import LabError

Address = tuple[str, int]

_LISTENING = "0A"
_WILDCARDS = {"0" * 8, "0" * 32}


def free_port(host: str) -> int:
    """Return a port of this host that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def ensure_free(addresses: Iterable[Address]) -> None:
    """Fail with one message that names every taken address and who has it."""
    if taken := [address for address in addresses if not _is_free(address)]:
        lines = [f"  {host}:{port}{_holder(host, port)}" for host, port in taken]
        raise LabError(
            "\n".join(["These addresses are needed and taken (by another lab? `make down` ends it):", *lines])
        )


def _is_free(address: Address) -> bool:
    with socket.socket() as probe:
        # As servers do: a connection that lingers from before is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise LabError(f"Nothing can listen on {address[0]}:{address[1]} here: {error.strerror}") from error
            return False
        return True


def _holder(host: str, port: int) -> str:
    """Name the program that listens there, as far as /proc lets this user see."""
    inodes = {f"socket:[{inode}]" for inode in _listeners(host, port)}
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(link.readlink()) in inodes:
                program = link.parts[:3]
                return f", held by {Path(*program, 'comm').read_text().strip()} (pid {program[2]})"
        except OSError:  # it has just ended, or belongs to someone else
            continue
    return ""


def _listeners(host: str, port: int) -> Iterable[str]:
    wanted = {*_WILDCARDS, socket.inet_aton(host)[::-1].hex().upper()}
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            address, _, hexadecimal = fields[1].partition(":")
            if fields[3] == _LISTENING and address in wanted and int(hexadecimal, 16) == port:
                yield fields[9]
