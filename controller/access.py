"""What opens the door to Prometheus: credentials, certificates and proxies, as the settings name them.

Files are read again whenever they are needed, because tokens and certificates rotate. No text made here holds a secret.
"""

import base64
import ipaddress
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.request import getproxies_environment

_SECRET_LENGTH = 8  # a shorter header, as the name of a tenant, is a word that belongs into a sentence

HealthFrom = Literal["auto", "targets", "up"]


class AccessError(Exception):
    """A file or a proxy cannot be used; the text names it, never what it holds."""

    def __init__(self, part: str, text: str) -> None:
        super().__init__(text)
        self.part = part
        """The field of `Access` that is at fault."""


@dataclass(frozen=True, slots=True)
class Access:
    """How requests prove who sends them, and whom they trust; what is empty is not used."""

    username: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""
    token_file: str = ""
    ca_file: str = ""
    """Instead of the machine's certificate authorities."""
    cert_file: str = ""
    key_file: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    insecure: bool = False
    """Any certificate will do, of anybody."""
    proxy: bool = False
    """Use the proxies of the environment."""

    def authorization(self) -> str:
        """Return the header of that name as it is now, empty where there is none; raise AccessError."""
        if self.token_file:
            if (token := _read("token_file", self.token_file).strip()) and token.isascii() and token.isprintable():
                return f"Bearer {token}"
            raise AccessError("token_file", f"{self.token_file} holds no token")
        if self.username:
            return basic(self.username, self._password())
        return ""

    def tls(self) -> ssl.SSLContext:
        """Return whom to trust and what to show them, as the files are now; raise AccessError."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
        except OSError as error:  # of which ssl.SSLError is one
            raise AccessError(
                "ca_file", f"{self.ca_file} holds no certificates that can be used: {_words(error)}"
            ) from None
        if self.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if self.cert_file:
            try:
                # A key that needs a password must not make Python ask for one at the terminal.
                context.load_cert_chain(self.cert_file, self.key_file, password="")
            except OSError as error:
                pair = f"{self.cert_file} and {self.key_file}"
                raise AccessError("cert_file", f"{pair} are no certificate and its key: {_words(error)}") from None
        return context

    def stamp(self) -> tuple[object, ...]:
        """Return what differs once a file of `tls` has been replaced; raise AccessError."""
        files = {"ca_file": self.ca_file, "cert_file": self.cert_file, "key_file": self.key_file}
        return tuple(_stat(part, name) for part, name in files.items() if name)

    def check(self) -> None:
        """Raise AccessError where a file cannot be used as it is now."""
        self.authorization()
        if self.stamp():
            self.tls()

    def secrets(self) -> set[str]:
        """Return what must be shown nowhere, as it is now."""
        found = {self.password, *(value for value in self.headers.values() if len(value) >= _SECRET_LENGTH)}
        with suppress(AccessError):
            found |= {self._password(), self.authorization().partition(" ")[2]}
        return found - {""}

    def _password(self) -> str:
        return _read("password_file", self.password_file).rstrip("\r\n") if self.password_file else self.password


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """Where health and readings come from; several URLs are replicas of one source."""

    targets: tuple[str, ...] = field(repr=False)
    query: tuple[str, ...] = field(repr=False)
    health_from: HealthFrom = "auto"
    access: Access = field(default_factory=Access)


def basic(username: str, password: str) -> str:
    """Return the Authorization header of HTTP's basic authentication."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def proxy_for(scheme: str, host: str) -> str | None:
    """Return the proxy that the environment names for a host, unless NO_PROXY excepts it.

    NO_PROXY may hold names, which stand for what is below them too, addresses, networks such as 10.0.0.0/8, and *.
    """
    proxies = getproxies_environment()
    excepted = (entry.strip().lower() for entry in proxies.get("no", "").split(","))
    return None if _is_among(host.lower(), excepted) else proxies.get(scheme) or proxies.get("all")


def _is_among(host: str, entries: Iterable[str]) -> bool:
    for entry in filter(None, entries):
        name = entry.removeprefix("*").lstrip(".")
        if not name or host == name or host.endswith(f".{name}"):
            return True
        with suppress(ValueError):
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False):
                return True
    return False


def _read(part: str, name: str) -> str:
    try:
        return Path(name).read_text("utf-8")
    except OSError as error:
        raise AccessError(part, f"{name} cannot be read: {_words(error)}") from None
    except UnicodeDecodeError:
        raise AccessError(part, f"{name} is no text") from None


def _stat(part: str, name: str) -> tuple[int, ...]:
    try:
        found = Path(name).stat()
    except OSError as error:
        raise AccessError(part, f"{name} cannot be read: {_words(error)}") from None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "not PEM"
    return error.strerror or type(error).__name__
