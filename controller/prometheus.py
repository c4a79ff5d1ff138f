"""The port to Prometheus: which server is asked what, and what a survey makes of the answers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from types import TracebackType
from typing import Self, TypeVar

import httpx

from controller.access import SourceConfig
from controller.answers import UP, FaultError, QueryAnswer, TargetsAnswer, parse, targets_of_up
from controller.facts import Observation, SourceFailure, Survey, Target
from controller.names import Reason
from controller.origin import Origin, OriginError
from controller.replicas import lift, merge_samples, merge_targets
from controller.texts import bounded

logger = logging.getLogger(__name__)

PROBE_SECONDS = 3600.0
"""After how long a source without a targets API is asked again whether it has one; after an error it is at once."""

_MESSAGE = 1000
_NO_API = frozenset({400, 404, 405})

_Kind = TypeVar("_Kind", TargetsAnswer, QueryAnswer)
_Reply = TypeVar("_Reply")


@dataclass(frozen=True, slots=True)
class _Told:
    """What a server answers to queries."""

    series: QueryAnswer
    scrapes: QueryAnswer | None = None
    """When the series `up` were written, where that was asked."""


class Prometheus:
    """Ask one source of health and readings; never raise for what it does or fails to do."""

    def __init__(
        self,
        config: SourceConfig,
        timeout_seconds: float,
        series: AbstractSet[str],
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask for these series, by name."""
        self._config, self._timeout, self._clock, self._series = config, timeout_seconds, clock, series
        self._origins = {url: Origin(url, config.access, transport) for url in (*config.targets, *config.query)}
        self._health = [self._origins[url] for url in config.targets]
        self._readings = [self._origins[url] for url in config.query]
        # Of several replicas one that does not answer must leave time for the queries.
        self._share = timeout_seconds / (2 if max(len(config.targets), len(config.query)) > 1 else 1)
        self._deadline = 0.0
        self._probe_at = float("-inf")
        self._known: tuple[Target, ...] = ()
        self._takes_queries = False
        self._said = ""

    @property
    def url(self) -> str:
        """Return the base URLs without credentials."""
        return _listed(origin.url for origin in self._origins.values())

    async def __aenter__(self) -> Self:
        if self._config.access.insecure:
            logger.warning("Certificates of %s are not verified, as prometheus_insecure asks", self.url)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for origin in self._origins.values():
            await origin.aclose()

    async def survey(self) -> Observation:
        """Return what Prometheus shows, or why nothing can be learnt from it, within the timeout."""
        self._deadline = asyncio.get_running_loop().time() + self._timeout
        try:
            survey = await self._survey()
        except OriginError as error:
            self._probe_at = float("-inf")
            return SourceFailure(error.reason, str(error))
        self._known = survey.targets
        if survey.source != self._said:
            logger.info("%s", survey.source)
            self._said = survey.source
        return survey

    async def _survey(self) -> Survey:
        """Ask for targets, then for series: a target that is reported up has its series a moment later."""
        shown, failed = await self._ask_targets()
        targets = merge_targets([answer.targets() for answer in shown])
        doubtful = not shown or any(answer.is_doubtful() for answer in shown)
        told, refused = await self._each(
            [origin for origin in self._readings if origin not in failed],
            lambda origin: self._ask_series(origin, with_up=doubtful, with_scrapes=not targets),
        )
        self._takes_queries |= bool(told)
        queryable = bool(told) or not (shown and all(map(self._keeps_no_series, refused.values())))
        if queryable:
            if not told:
                raise self._hopeless(refused, shown)
            failed |= refused
        up = [[sample for sample in one.series.samples() if sample.name == UP] for one in told.values()]
        if by_up := not targets and any(up):
            scrapes = [one.scrapes.samples() if one.scrapes else () for one in told.values()]
            targets = merge_targets([targets_of_up(*pair, self._known) for pair in zip(up, scrapes, strict=True)])
        elif shown:
            targets = lift(targets, chain.from_iterable(up))
        else:
            lacks = "no series up" if self._config.health_from == "up" else "neither a targets API nor series up"
            text = f"Prometheus at {self.url} has {lacks}, so that nothing is known to be up"
            raise OriginError(Reason.NO_HEALTH, f"{text}; set targets_url to what scrapes the targets")
        answers = [*shown, *(one.series for one in told.values())]
        return Survey(
            targets,
            merge_samples(
                [(one for one in answer.series.samples() if one.name in self._series) for answer in told.values()]
            ),
            partial=bounded(
                "; ".join(filter(None, [*(one.lack() for one in answers), *map(str, failed.values())])), _MESSAGE
            ),
            queryable=queryable,
            source=self._source(by_up=by_up, queryable=queryable),
        )

    async def _ask_targets(self) -> tuple[Sequence[TargetsAnswer], dict[Origin, OriginError]]:
        """Return the answers of targets APIs, none where health has to come from `up`, and who failed to answer."""
        if self._config.health_from == "up" or self._clock() < self._probe_at:
            return (), {}
        shown, failed = await self._each(self._health, self._targets)
        lacking = {
            origin for origin, error in failed.items() if self._config.health_from == "auto" and _lacks_api(error)
        }
        if shown:
            return [*shown.values()], failed
        if not lacking:
            raise _joined(failed)
        if all(failed[origin].status in _NO_API for origin in lacking):
            self._probe_at = self._clock() + PROBE_SECONDS
        return (), {origin: error for origin, error in failed.items() if origin not in lacking}

    async def _targets(self, origin: Origin) -> TargetsAnswer:
        return await self._get(origin, TargetsAnswer, "targets", {"state": "active"})

    async def _ask_series(self, origin: Origin, *, with_up: bool, with_scrapes: bool) -> _Told:
        scrapes = await self._query(origin, f"timestamp({UP})") if with_scrapes else None
        names = "|".join(sorted(self._series | {UP} if with_up else self._series))
        return _Told(await self._query(origin, f'{{__name__=~"{names}"}}'), scrapes)

    async def _query(self, origin: Origin, query: str) -> QueryAnswer:
        # Without a cache VictoriaMetrics shows the newest 30 s as well; others do not know the word.
        return await self._get(origin, QueryAnswer, "query", {"query": query, "nocache": "1"})

    async def _get(self, origin: Origin, kind: type[_Kind], what: str, params: Mapping[str, str]) -> _Kind:
        body = await origin.get(what, params)
        try:
            return parse(kind, body)
        except FaultError as fault:
            raise origin.not_prometheus(f"{what}: {fault}") from None

    async def _each(
        self, origins: Sequence[Origin], ask: Callable[[Origin], Awaitable[_Reply]]
    ) -> tuple[dict[Origin, _Reply], dict[Origin, OriginError]]:
        """Ask replicas at the same time; return who answered, and who did not."""
        until = min(asyncio.get_running_loop().time() + self._share, self._deadline)

        async def one(origin: Origin) -> _Reply | OriginError:
            try:
                async with asyncio.timeout_at(until):
                    return await ask(origin)
            except TimeoutError:
                return origin.error(Reason.TIMED_OUT, f"gave no answer within {self._share:g} s")
            except OriginError as error:
                return error

        replies = dict(zip(origins, await asyncio.gather(*map(one, origins)), strict=True))
        failed = {origin: reply for origin, reply in replies.items() if isinstance(reply, OriginError)}
        return {origin: reply for origin, reply in replies.items() if not isinstance(reply, OriginError)}, failed

    def _keeps_no_series(self, error: OriginError) -> bool:
        """Tell whether health alone can be had here: a Prometheus agent and vmagent send everything elsewhere."""
        if self._config.query != self._config.targets:
            return False  # a URL that was given for queries is meant to take some
        if error.status == HTTPStatus.UNPROCESSABLE_ENTITY and "Prometheus Agent" in error.body:
            return True
        unsupported = error.status == HTTPStatus.BAD_REQUEST and "unsupported path" in error.body
        return not self._takes_queries and (unsupported or error.status in {404, 405})

    def _hopeless(self, refused: Mapping[Origin, OriginError], shown: Sequence[TargetsAnswer]) -> OriginError:
        error = _joined(refused)
        if shown or error.status != HTTPStatus.NOT_FOUND:
            return error
        tried = _listed(f"{origin.url}/api/v1/targets" for origin in self._health)
        return OriginError(error.reason, f"{error}; and {tried} is no targets API: is the path of the URL right?")

    def _source(self, *, by_up: bool, queryable: bool) -> str:
        targets, query = _listed(one.url for one in self._health), _listed(one.url for one in self._readings)
        if by_up:
            return f"Health and readings from queries to {query}, health by the series {UP}"
        if not queryable:
            return f"Health from the targets API of {targets}; no readings, because it takes no queries"
        return f"Health from the targets API of {targets}, readings from queries to {query}"


def _lacks_api(error: OriginError) -> bool:
    """Tell whether there is no targets API; that of Thanos before 0.35 fails while any target waits for a scrape."""
    return error.status in _NO_API or "unknown targetHealth" in error.body


def _joined(failed: Mapping[Origin, OriginError]) -> OriginError:
    first = next(iter(failed.values()))
    return OriginError(first.reason, bounded("; ".join(map(str, failed.values())), _MESSAGE), first.status)


def _listed(urls: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(urls))
