"""The operator's settings, by flag and by environment."""

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, HttpUrl, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from controller import profiles
from controller.exporters import Profile
from controller.facts import HOST_LABELS, Policy, Port
from controller.texts import bounded

PREFIX = "GPU_TOPOLOGY_"
MAX_PORT = 65535


class Settings(BaseSettings):
    """Each field is a flag (`--poll-seconds`) and an environment variable (`GPU_TOPOLOGY_POLL_SECONDS`)."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    prometheus_url: HttpUrl = Field(description="base URL of Prometheus, with its path prefix where it has one")
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

    @field_validator("prometheus_url")
    @classmethod
    def _bare(cls, url: HttpUrl) -> HttpUrl:
        if url.query is not None or url.fragment is not None:
            raise PydanticCustomError("url_end", "URL should end with its path, without ? or #")
        return url

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
    def base_url(self) -> str:
        """Prometheus' base URL without the final slash."""
        return str(self.prometheus_url).rstrip("/")


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
        name = str(fault["loc"][0])
        value = str(fault["input"])
        # What has one of these may be a URL with a password or a token in it, however wrong the rest is.
        shown = "" if {"@", "?"} & {*value} else f", but it is {bounded(value, 100)!r}"
        what = "is needed" if fault["type"] == "missing" else f"{fault['msg']}{shown}"
        raise SettingsError(f"{_spelled(name)}: {what}") from None
    return settings


def _spelled(name: str) -> str:
    return f"{PREFIX}{name.upper()} (--{name.replace('_', '-')})"
