"""Certificates made at run time, for tests that speak TLS."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_NEW = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2"]


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path

    @classmethod
    def authority(cls, folder: Path, name: str) -> Self:
        return cls._new(folder, name, "-addext", "keyUsage=critical,keyCertSign")

    def issue(self, folder: Path, name: str, address: str) -> Self:
        """Make a certificate for a server or client at an address."""
        signed = ["-CA", str(self.certificate), "-CAkey", str(self.key)]
        plain = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName=IP:{address}"]
        return self._new(folder, name, *signed, *plain)

    @classmethod
    def _new(cls, folder: Path, name: str, *words: str) -> Self:
        pair = cls(folder / f"{name}.pem", folder / f"{name}.key")
        files = ["-out", str(pair.certificate), "-keyout", str(pair.key)]
        subprocess.run([*_NEW, "-subj", f"/CN={name}", *files, *words], check=True, capture_output=True)
        return pair
