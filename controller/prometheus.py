"""The port to Prometheus: one request for targets and one for series, and every way in which that can fail."""

import asyncio
import json
import re
from functools import lru_cache
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from controller.facts import Observation, Sample, SourceFailure, Survey, Target, TargetHealth
from controller.matching import normal_host
from controller.names import Reason
from controller.readings import KNOWN_SERIES

_QUERY = '{__name__=~"' + "|".join(sorted(KNOWN_SERIES)) + '"}'
_DEFAULT_PORTS = {"http": 80, "https": 443}
_TEXT_LIMIT = 300
_DEFAULT_SCRAPE_SECONDS = 60.0  # Prometheus' own default
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdwy])")


class Prometheus:
    """Ask one Prometheus; never raise for what it does or fails to do."""

    def __init__(
        self, base_url: str, timeout_seconds: float, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._base, self._timeout = base_url, timeout_seconds
        # Proxies of the environment are for the internet, not for a Prometheus next door.
        self._http = httpx.AsyncClient(timeout=timeout_seconds, trust_env=False, transport=transport)

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
                targets = await self._get("targets", state="active")
                series = await self._get("query", query=_QUERY)
            return Survey(
                tuple(_target(entry) for entry in targets["data"]["activeTargets"]),
                tuple(sample for entry in series["data"]["result"] if (sample := _sample(entry))),
                partial=_lacks(targets) or _lacks(series),
            )
        except (TimeoutError, httpx.TimeoutException):
            return self._failure(Reason.TIMED_OUT, f"gave no answer within {self._timeout:g} s")
        except _HttpError as error:
            return self._failure(Reason.HTTP_ERROR, str(error))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            return self._failure(Reason.INVALID_ANSWER, f"gave an answer that is not Prometheus' ({error})")
        except httpx.HTTPError as error:
            return self._failure(Reason.CONNECTION_FAILED, f"cannot be reached: {error or type(error).__name__}")

    async def _get(self, what: str, **params: str) -> Any:  # noqa: ANN401 - JSON, whose shape the caller checks
        response = await self._http.get(f"{self._base}/api/v1/{what}", params=params)
        if not response.is_success:
            text = " ".join(response.text.split())[:_TEXT_LIMIT]
            raise _HttpError(f"answered {what} with {response.status_code} {response.reason_phrase}: {text}")
        try:
            answer = json.loads(response.content)
        except ValueError:
            text = " ".join(response.text.split())[:60]
            raise ValueError(f"{what}: no JSON, it begins with {text!r}") from None
        if answer["status"] != "success":
            raise ValueError(f"{what}: status {answer['status']!r}")
        return answer

    def _failure(self, reason: Reason, text: str) -> SourceFailure:
        return SourceFailure(reason, f"Prometheus at {self._base} {text}"[:1000])


class _HttpError(Exception):
    pass


def _target(entry: Any) -> Target:  # noqa: ANN401 - JSON
    host, port = _address(entry["scrapeUrl"])
    return Target(
        scrape_url=entry["scrapeUrl"],
        host=host,
        port=port,
        labels={**entry["labels"]},
        health=TargetHealth(entry["health"]),
        last_error=" ".join(entry.get("lastError", "").split())[:_TEXT_LIMIT],
        last_scrape=entry.get("lastScrape", ""),
        scrape_seconds=_seconds(entry.get("scrapeInterval", "")) or _DEFAULT_SCRAPE_SECONDS,
    )


def _lacks(answer: Any) -> str:  # noqa: ANN401 - JSON
    """Say what an answer says that it lacks: Thanos warns, VictoriaMetrics has a flag."""
    if answer.get("isPartial"):
        return "isPartial is set"
    return "; ".join(map(str, answer.get("warnings") or ()))[:_TEXT_LIMIT]


@lru_cache(maxsize=1 << 8)
def _seconds(duration: str) -> float:
    """Read a duration as Prometheus writes it, such as 1m30s; 0 where there is none."""
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(duration))


def _sample(entry: Any) -> Sample | None:  # noqa: ANN401 - JSON
    if "value" not in entry:
        return None  # a native histogram
    labels = {**entry["metric"]}
    return Sample(labels["__name__"], labels, float(entry["value"][1]))


@lru_cache(maxsize=1 << 16)
def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return normal_host(parts.hostname or ""), parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
