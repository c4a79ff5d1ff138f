"""The port to Prometheus: one request for targets and one for series, and every way in which that can fail."""

import asyncio
import re
from collections.abc import Set as AbstractSet
from functools import lru_cache
from types import TracebackType
from typing import Annotated, Literal, Self, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ConfigDict, FailFast, ValidationError
from pydantic.alias_generators import to_camel

from controller.facts import Observation, Sample, SourceFailure, Survey, Target, TargetHealth
from controller.matching import normal_host
from controller.names import Reason
from controller.texts import bounded

ANSWER_BYTES = 96 * 1024 * 1024
"""The longest answer that is read. Prometheus sends along what it discovered of a target: with 80 labels from
Kubernetes a target takes 8.8 kB, 10,000 of them 84 MiB. Reading that takes as much again for a moment."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_EXCERPT = 300
_MESSAGE = 1000
_DEFAULT_SCRAPE_SECONDS = 60.0  # Prometheus' own default
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdwy])")

_Kind = TypeVar("_Kind", bound="_Answer")


class Prometheus:
    """Ask one Prometheus; never raise for what it does or fails to do."""

    def __init__(
        self,
        base_url: str,
        timeout_seconds: float,
        series: AbstractSet[str],
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Ask for these series, by name."""
        url = httpx.URL(base_url)
        self.url = str(url.copy_with(userinfo=b"")).rstrip("/")
        """The base URL without credentials, which must reach neither log nor status."""
        self._timeout = timeout_seconds
        self._series, self._query = series, '{__name__=~"' + "|".join(sorted(series)) + '"}'
        self._http = httpx.AsyncClient(
            auth=(url.username, url.password) if url.userinfo else None,
            # Compressed answers could be longer than they look; a Prometheus next door need not compress.
            headers={"Accept-Encoding": "identity"},
            timeout=timeout_seconds,
            # Proxies of the environment are for the internet, not for a Prometheus next door.
            trust_env=False,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def survey(self) -> Observation:
        """Return what Prometheus shows, or why nothing can be learnt from it, within the timeout.

        Targets come first: a target that is reported up has its series a moment later, not the other way round.
        """
        try:
            async with asyncio.timeout(self._timeout):
                targets = await self._get(_TargetsAnswer, "targets", state="active")
                series = await self._get(_QueryAnswer, "query", query=self._query)
        except (TimeoutError, httpx.TimeoutException):
            return self._failure(Reason.TIMED_OUT, f"gave no answer within {self._timeout:g} s")
        except _HttpError as error:
            return self._failure(Reason.HTTP_ERROR, f"answered {error}")
        except _AnswerError as error:
            return self._failure(Reason.INVALID_ANSWER, f"gave an answer that is not Prometheus' ({error})")
        except httpx.HTTPError as error:
            return self._failure(Reason.CONNECTION_FAILED, f"cannot be reached: {str(error) or type(error).__name__}")
        return Survey(
            tuple(entry.target() for entry in targets.data.active_targets),
            # What has no value is a native histogram.
            tuple(
                Sample(name, entry.metric, entry.value[1])
                for entry in series.data.result
                if entry.value and (name := entry.metric.get("__name__", "")) in self._series
            ),
            partial=targets.lack() or series.lack(),
        )

    async def _get(self, kind: type[_Kind], what: str, **params: str) -> _Kind:
        async with self._http.stream("GET", f"{self.url}/api/v1/{what}", params=params) as response:
            encoded = response.headers.get("content-encoding", "identity") != "identity"
            if not response.is_success:
                text = "" if encoded else _excerpt(await _read(response, 4 * _EXCERPT))
                where = response.headers.get("location", "").partition("?")[0]
                text = f"it points to {where}" if response.is_redirect and where else text
                status = f"{response.status_code} {response.reason_phrase}".rstrip()
                raise _HttpError(f"{what} with {status}" + (f": {text}" if text else ""))
            if encoded:
                raise _AnswerError(f"{what}: compressed, which was not asked for")
            body = await _read(response, ANSWER_BYTES)
        if len(body) > ANSWER_BYTES:
            raise _AnswerError(f"{what}: longer than {ANSWER_BYTES:,} bytes")
        try:
            return kind.model_validate_json(body)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, fault["loc"]))
            raise _AnswerError(
                f"{what}: {where and where + ': '}{fault['msg']}; it begins with {_excerpt(body)!r}"
            ) from None

    def _failure(self, reason: Reason, text: str) -> SourceFailure:
        return SourceFailure(reason, bounded(f"Prometheus at {self.url} {text}", _MESSAGE))


async def _read(response: httpx.Response, limit: int) -> bytes:
    """Return the body; where it is longer than the limit, a byte more than the limit, and never read on."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk[: limit + 1 - len(body)]
        if len(body) > limit:
            break
    return bytes(body)


def _excerpt(body: bytes) -> str:
    return bounded(body[: 4 * _EXCERPT].decode(errors="replace"), _EXCERPT)


class _HttpError(Exception):
    pass


class _AnswerError(Exception):
    pass


# ---- the parts of Prometheus' answers that count here


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class _Answer(_Part):
    status: Literal["success"]
    is_partial: bool | None = None
    warnings: list[str] | None = None

    def lack(self) -> str:
        """Say what the answer says that it lacks: Thanos warns, VictoriaMetrics has a flag."""
        return "isPartial is set" if self.is_partial else bounded("; ".join(self.warnings or ()), _EXCERPT)


class _Discovered(BaseModel):
    """What can say on which host a target is; the rest, by far the most, is not kept."""

    model_config = ConfigDict(alias_generator=lambda name: f"__{name}__" if name == "address" else f"__meta_{name}")

    address: str = ""
    kubernetes_pod_node_name: str = ""
    kubernetes_node_name: str = ""


class _ActiveTarget(_Part):
    scrape_url: str
    discovered_labels: _Discovered | None = None
    labels: dict[str, str]
    health: TargetHealth
    last_error: str = ""
    last_scrape: str = ""
    scrape_interval: str = ""

    def target(self) -> Target:
        host, port = _address(self.scrape_url)
        discovered = self.discovered_labels
        return Target(
            scrape_url=self.scrape_url,
            host=host,
            port=port,
            labels=self.labels,
            health=self.health,
            last_error=bounded(self.last_error, _EXCERPT),
            last_scrape=self.last_scrape,
            scrape_seconds=_seconds(self.scrape_interval) or _DEFAULT_SCRAPE_SECONDS,
            discovered=discovered.model_dump(by_alias=True, exclude_defaults=True) if discovered else {},
        )


class _Targets(_Part):
    active_targets: Annotated[list[_ActiveTarget], FailFast()]


class _TargetsAnswer(_Answer):
    data: _Targets


class _Entry(_Part):
    metric: dict[str, str]
    value: tuple[float, float] | None = None


class _Series(_Part):
    result_type: Literal["vector"]
    result: Annotated[list[_Entry], FailFast()]


class _QueryAnswer(_Answer):
    data: _Series


@lru_cache(maxsize=1 << 16)
def _address(url: str) -> tuple[str, int]:
    """Return the host and port of a scrape URL; none where it is no URL, as a foreign target's mistyped address."""
    try:
        parts = urlsplit(url)
        return normal_host(parts.hostname or ""), parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError:
        return "", 0


@lru_cache(maxsize=1 << 8)
def _seconds(duration: str) -> float:
    """Read a duration as Prometheus writes it, such as 1m30s; 0 where there is none."""
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(duration))
