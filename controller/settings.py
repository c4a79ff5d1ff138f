"""The operator's settings, by flag and by environment."""

import json
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, HttpUrl, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from controller import profiles
from controller.access import Access, AccessError, HealthFrom, SourceConfig
from controller.exporters import Profile
from controller.facts import HOST_LABELS, Policy, Port
from controller.texts import bounded

PREFIX = "GPU_TOPOLOGY_"
MAX_PORT = 65535

OF_PROMETHEUS = frozenset({"targets_url", "query_url", "health_from", "poll_seconds"})
"""What says how Prometheus is asked, besides all that is named after it."""

WITHOUT_FLAG = frozenset({"prometheus_password"})
"""What can be set by variable alone, because other users of a machine see each other's flags."""

SECRET = frozenset({"prometheus_password", "prometheus_headers"})
"""What is never shown, however wrong it is."""

_ADDRESSES = re.compile(r",\s*(?=[A-Za-z][A-Za-z0-9+.-]*://)")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

Urls = Annotated[tuple[HttpUrl, ...], NoDecode]


class Settings(BaseSettings):
    """Each field is a flag (`--poll-seconds`) and an environment variable (`GPU_TOPOLOGY_POLL_SECONDS`)."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    # A URL may hold a password, so that none is part of what is printed.
    prometheus_url: Urls = Field(
        default=(),
        repr=False,
        description="base URL of Prometheus, with its path prefix where it has one; several with commas are replicas",
    )
    targets_url: Urls = Field(default=(), repr=False, description="whose targets API gives health, where it is another")
    query_url: Urls = Field(default=(), repr=False, description="who answers queries for readings, where it is another")
    health_from: HealthFrom = Field(
        default="auto",
        description="the targets API, the series up, or up where there is no targets API: targets|up|auto",
    )
    prometheus_username: str = Field(default="", description="for basic authentication")
    prometheus_password: SecretStr | None = Field(default=None, description="by variable alone, never by flag")
    prometheus_password_file: str = Field(default="", description="file with the password; it may be replaced")
    prometheus_token_file: str = Field(default="", description="file with a bearer token; it may be replaced")
    prometheus_ca_file: str = Field(default="", description="authorities to trust instead of the machine's, as PEM")
    prometheus_cert_file: str = Field(default="", description="certificate to show, as PEM; it may be replaced")
    prometheus_key_file: str = Field(default="", description="its key")
    prometheus_headers: Annotated[dict[str, str], NoDecode] = Field(
        default={}, repr=False, description='more headers as JSON, such as {"X-Scope-OrgID": "lab"}'
    )
    prometheus_insecure: bool = Field(default=False, description="whether to take any certificate")
    prometheus_proxy: bool = Field(default=False, description="whether to use the proxies of the environment")
    poll_seconds: float = Field(default=5, ge=0.2, le=300, description="how often Prometheus is asked")
    telemetry_seconds: float = Field(
        default=30, ge=0, le=3600, description="how often at most a card's readings are written"
    )
    target_ports: Annotated[tuple[Port, ...], NoDecode] = Field(
        default=(9182, 9183),
        min_length=1,
        description="ports of the targets that speak for a card, where it names none",
    )
    host_labels: Annotated[tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...], NoDecode] = Field(
        default=HOST_LABELS, description="labels of a target whose value is the name of its host"
    )
    target_missing_seconds: float = Field(
        default=60, ge=0, le=3600, description="how long an online card without any target keeps its phase"
    )
    valid_for_seconds: int = Field(
        default=180, ge=3, le=86400, description="how long a topology may be relied on after the operator's last word"
    )
    profiles_file: Path | None = Field(default=None, description="a YAML file of profiles for your own exporters")
    listen: str = Field(
        default="127.0.0.1:8080",
        description="where /healthz, /readyz and /topology are served, as host:port; empty for nowhere",
    )
    serve_topology: bool = Field(default=True, description="whether the plain snapshot is served there")
    log_format: Literal["text", "json"] = Field(default="text", description="how log lines are written")

    @field_validator("target_ports", "host_labels", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        host, _colon, port = value.rpartition(":")
        if value and not (host and port.isdecimal() and int(port) <= MAX_PORT):
            raise PydanticCustomError("address", "Address should be host:port, such as 127.0.0.1:8080")
        return value

    @field_validator("prometheus_url", "targets_url", "query_url", mode="before")
    @classmethod
    def _split_urls(cls, value: object) -> object:
        return _ADDRESSES.split(value) if isinstance(value, str) else value

    @field_validator("prometheus_url", "targets_url", "query_url")
    @classmethod
    def _bare(cls, urls: tuple[HttpUrl, ...]) -> tuple[HttpUrl, ...]:
        if any(url.query is not None or url.fragment is not None for url in urls):
            raise PydanticCustomError("url_end", "URL should end with its path, without ? or #")
        return urls

    @field_validator("prometheus_headers", mode="before")
    @classmethod
    def _read_headers(cls, value: object) -> object:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            raise PydanticCustomError("json", "Input should be a JSON object") from None

    @field_validator("prometheus_headers")
    @classmethod
    def _sendable(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not (_HEADER_NAME.fullmatch(name) and value.isascii() and value.isprintable()):
                raise PydanticCustomError("header", "names and values should be printable ASCII")
        return headers

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if found := self._contradiction():
            setting, fault = found
            raise PydanticCustomError("contradiction", "{fault}", {"setting": setting, "fault": fault})
        try:
            self.source.access.check()
        except AccessError as error:
            raise PydanticCustomError(
                "access", "{fault}", {"setting": f"prometheus_{error.part}", "fault": str(error)}
            ) from None
        return self

    def _contradiction(self) -> tuple[str, str] | None:
        """Return a setting that does not go with the others, and why."""
        urls = (*self.prometheus_url, *self.targets_url, *self.query_url)
        has_password = bool(self.prometheus_password or self.prometheus_password_file)
        credentials = {
            "prometheus_token_file": bool(self.prometheus_token_file),
            "prometheus_username": bool(self.prometheus_username),
            "prometheus_headers": "authorization" in map(str.lower, self.prometheus_headers),
            "prometheus_url": any(url.username or url.password for url in urls),
        }
        given = [name for name, is_given in credentials.items() if is_given]
        source = self.source
        checks = (
            ("prometheus_url", not source.query or not (source.targets or self.health_from == "up"), "is needed"),
            ("targets_url", self.targets_url and self.health_from == "up", "is not asked where health_from is up"),
            ("prometheus_username", ":" in self.prometheus_username, "should have no colon"),
            ("prometheus_username", self.prometheus_username and not has_password, "needs a password"),
            ("prometheus_username", has_password and not self.prometheus_username, "is needed for the password"),
            (
                "prometheus_password_file",
                self.prometheus_password and self.prometheus_password_file,
                "is one password too many beside prometheus_password",
            ),
            (given[0] if given else "", len(given) > 1, f"does not go with credentials by {', '.join(given[1:])}"),
            ("prometheus_cert_file", self.prometheus_cert_file and not self.prometheus_key_file, "needs its key"),
            (
                "prometheus_key_file",
                self.prometheus_key_file and not self.prometheus_cert_file,
                "needs its certificate",
            ),
        )
        return next(((name, fault) for name, is_wrong, fault in checks if is_wrong), None)

    @cached_property
    def profiles(self) -> tuple[Profile, ...]:
        """The known exporters, by falling precedence; raises ProfileError where the file cannot be used."""
        return profiles.load(self.profiles_file) if self.profiles_file else profiles.built_in()

    @property
    def series(self) -> frozenset[str]:
        """The names of all series that Prometheus is asked for."""
        return profiles.series(self.profiles)

    @property
    def policy(self) -> Policy:
        """What rules need of the settings."""
        return Policy(
            profiles=self.profiles,
            target_ports=self.target_ports,
            host_labels=self.host_labels,
            target_missing_seconds=self.target_missing_seconds,
            telemetry_seconds=self.telemetry_seconds,
            valid_for_seconds=self.valid_for_seconds,
        )

    @property
    def listen_address(self) -> tuple[str, int] | None:
        """Host and port to serve on."""
        host, _colon, port = self.listen.rpartition(":")
        return (host.strip("[]"), int(port)) if port else None

    @property
    def dead_after_seconds(self) -> float:
        """After how long without the end of a pass the loop counts as dead: no pass takes that long."""
        return 2 * self.poll_seconds + 45

    @property
    def timeout_seconds(self) -> float:
        """How long Prometheus may take to answer: less than a poll period, so that a slow one delays no pass."""
        return self.poll_seconds * 0.9

    @property
    def source(self) -> SourceConfig:
        """Where health and readings come from."""
        password = self.prometheus_password
        return SourceConfig(
            targets=_bases(self.targets_url or self.prometheus_url),
            query=_bases(self.query_url or self.prometheus_url),
            health_from=self.health_from,
            access=Access(
                username=self.prometheus_username,
                password=password.get_secret_value() if password else "",
                password_file=self.prometheus_password_file,
                token_file=self.prometheus_token_file,
                ca_file=self.prometheus_ca_file,
                cert_file=self.prometheus_cert_file,
                key_file=self.prometheus_key_file,
                headers=self.prometheus_headers,
                insecure=self.prometheus_insecure,
                proxy=self.prometheus_proxy,
            ),
        )


def _bases(urls: Iterable[HttpUrl]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(url).rstrip("/") for url in urls))


class SettingsError(Exception):
    """A setting is missing or out of bounds; the text names it as flag and variable."""


def load(flags: dict[str, Any]) -> Settings:
    """Read settings from flags where given, else from the environment; raise SettingsError on the first bad one."""
    try:
        settings = Settings(**{name: value for name, value in flags.items() if value is not None})
        _ = settings.profiles  # a fault in the file is a fault of the setting, told before anything starts
    except profiles.ProfileError as error:
        raise SettingsError(f"{_spelled('profiles_file')}: {error}") from None
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        # What is wrong with settings together has no place of its own.
        name = str(fault["loc"][0] if fault["loc"] else fault["ctx"]["setting"])
        value = str(fault["input"])
        # What has one of these may be a URL with a password or a token in it, however wrong the rest is.
        hidden = not fault["loc"] or name in SECRET or {"@", "?"} & {*value}
        shown = "" if hidden else f", but it is {bounded(value, 100)!r}"
        raise SettingsError(f"{_spelled(name)}: {fault['msg']}{shown}") from None
    return settings


def _spelled(name: str) -> str:
    flag = "" if name in WITHOUT_FLAG else f" (--{name.replace('_', '-')})"
    return f"{PREFIX}{name.upper()}{flag}"
