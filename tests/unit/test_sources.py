"""Which server is asked what, when, and what becomes of it: with and without a targets API, one or several."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from typing_extensions import override

from controller.access import HealthFrom, SourceConfig
from controller.facts import (
    GpuNode,
    GpuNodeSpec,
    Instant,
    Observation,
    Phase,
    Policy,
    Sample,
    SourceFailure,
    Survey,
    Target,
    TargetHealth,
)
from controller.manifests import Declared
from controller.names import Condition, Reason
from controller.plan import Plan
from controller.profiles import built_in
from controller.prometheus import PROBE_SECONDS, Prometheus
from tests.fake_server import Answer, Asked, FakeServer

SAMPLES = Path(__file__).parents[1] / "samples" / "api"
A, B = "http://a:9090", "http://b:9090"
NAMES = {"gpu_temp_c", "gpu_power_w"}
UP, DOWN = TargetHealth.UP, TargetHealth.DOWN

Reply = httpx.Response | Exception
Replies = Mapping[str, Reply]
NOT_FOUND = httpx.Response(404, text="404 page not found\n")


def entry(host: str = "card-1", health: str = "up", **fields: object) -> dict[str, object]:
    labels = {"job": "gpu", "instance": f"{host}:9182"}
    url = f"http://{host}:9182/metrics"
    return {"scrapeUrl": url, "labels": labels, "health": health, "scrapeInterval": "15s", **fields}


def targets(*entries: dict[str, object], **more: object) -> httpx.Response:
    return httpx.Response(200, json={"status": "success", "data": {"activeTargets": entries}, **more})


def series(*samples: tuple[str, str, float]) -> httpx.Response:
    result = [
        {"metric": {"__name__": name, "job": "gpu", "instance": f"{host}:9182"}, "value": [1, str(value)]}
        for name, host, value in samples
    ]
    return httpx.Response(200, json={"status": "success", "data": {"resultType": "vector", "result": result}})


def vector(name: str) -> httpx.Response:
    return httpx.Response(200, content=(SAMPLES / name).read_bytes())


def sample(name: str, host: str, value: float) -> Sample:
    return Sample(name, {"__name__": name, "job": "gpu", "instance": f"{host}:9182"}, value)


@dataclass
class Servers:
    """Servers by host and kind of request, a clock, and one source over them that lasts for a whole story."""

    replies: dict[str, Reply] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    now: float = 0

    def handle(self, request: httpx.Request) -> httpx.Response:
        what = request.url.path.rpartition("/")[2]
        query = request.url.params.get("query", "")
        if what == "query":
            what = "scrapes" if query.startswith("timestamp") else "up" if "|up" in query else "series"
        key = f"{request.url.host} {what}"
        self.asked.append(key)
        kind = key if key in self.replies else f"{request.url.host} {'targets' if what == 'targets' else 'query'}"
        reply = self.replies[kind]
        if isinstance(reply, Exception):
            raise reply
        return httpx.Response(reply.status_code, content=reply.content)

    def source(self, health_from: HealthFrom = "auto", *, query: str = "", replicas: int = 1) -> Prometheus:
        urls = (A, B)[:replicas]
        config = SourceConfig(urls, (query,) if query else urls, health_from)
        return Prometheus(config, 30, NAMES, httpx.MockTransport(self.handle), clock=lambda: self.now)

    def survey(self, health_from: HealthFrom = "auto", *, query: str = "", replicas: int = 1) -> Observation:
        return asyncio.run(self.source(health_from, query=query, replicas=replicas).survey())


def shown(observation: Observation) -> dict[str, TargetHealth]:
    assert isinstance(observation, Survey)
    return {target.host: target.health for target in observation.targets}


# ---- without a targets API

BY_UP = f"Health and readings from queries to {A}, health by the series up"


@pytest.mark.parametrize(
    "lacking",
    [
        pytest.param(NOT_FOUND, id="404 in plain text, as Mimir"),
        pytest.param(httpx.Response(405), id="405"),
        pytest.param(
            httpx.Response(400, text='unsupported path requested: "/x"'), id="400, as VictoriaMetrics' cluster"
        ),
        pytest.param(httpx.Response(404, json={"status": "error", "errorType": "not_found"}), id="404 in JSON"),
        pytest.param(targets(), id="an empty list, as Thanos without sidecars"),
    ],
)
def test_p12_health_comes_from_up_where_there_is_no_targets_api(lacking: httpx.Response) -> None:
    servers = Servers({
        "a targets": lacking,
        "a up": series(("up", "card-1", 1), ("up", "card-2", 0), ("gpu_temp_c", "card-1", 40)),
        "a scrapes": series(("", "card-1", 1787386455.412)),
    })  # fmt: skip
    observation = servers.survey()
    found = [
        Target(f"{host}:9182", host, 9182, {"job": "gpu", "instance": f"{host}:9182"}, health, "", last_scrape)
        for host, health, last_scrape in (("card-1", UP, "1787386455.412"), ("card-2", DOWN, ""))
    ]
    assert observation == Survey(tuple(found), (sample("gpu_temp_c", "card-1", 40),), source=BY_UP)
    assert servers.asked == ["a targets", "a scrapes", "a up"]


def test_p12_up_alone_is_asked_where_the_settings_say_so() -> None:
    servers = Servers({"a query": vector("query_up.json")})
    observation = servers.survey("up")
    assert isinstance(observation, Survey)
    assert [(one.host, one.port, one.health) for one in observation.targets] == [
        ("192.168.1.41", 9182, UP), ("192.168.1.41", 9183, DOWN), ("10.42.3.17", 9400, UP)
    ]  # fmt: skip
    assert servers.asked == ["a scrapes", "a up"]


@pytest.mark.parametrize(
    ("health_from", "lacks"), [("auto", "neither a targets API nor series up"), ("up", "no series up")]
)
def test_p12_a_source_without_any_health_is_a_fault_and_no_empty_fleet(health_from: HealthFrom, lacks: str) -> None:
    servers = Servers({"a targets": NOT_FOUND, "a query": vector("query_vector_empty.json")})
    said = f"Prometheus at {A} has {lacks}, so that nothing is known to be up"
    assert servers.survey(health_from) == SourceFailure(
        Reason.NO_HEALTH, f"{said}; set targets_url to what scrapes the targets"
    )


def test_p12_where_the_targets_api_is_asked_for_its_absence_is_a_fault() -> None:
    servers = Servers({"a targets": NOT_FOUND, "a query": vector("query_up.json")})
    assert servers.survey("targets") == SourceFailure(
        Reason.HTTP_ERROR, f"Prometheus at {A} answered targets with 404 Not Found: 404 page not found"
    )
    assert servers.asked == ["a targets"]


@pytest.mark.parametrize("status", [401, 403, 429, 500, 502, 503])
def test_other_failures_of_the_targets_api_do_not_mean_that_there_is_none(status: int) -> None:
    servers = Servers({"a targets": httpx.Response(status), "a query": vector("query_up.json")})
    assert isinstance(servers.survey(), SourceFailure)
    assert servers.asked == ["a targets"]


def story(servers: Servers, steps: int, change: Callable[[int], None], **source: Any) -> list[Observation]:  # noqa: ANN401 - as Servers.source
    async def passes() -> list[Observation]:
        async with servers.source(**source) as prometheus:
            observations = []
            for step in range(steps):
                change(step)
                observations.append(await prometheus.survey())
            return observations

    return asyncio.run(passes())


def test_the_targets_api_is_looked_for_again_after_an_hour_and_after_an_error() -> None:
    up = series(("up", "card-1", 1))
    servers = Servers({"a targets": NOT_FOUND, "a query": up})

    def change(step: int) -> None:
        servers.now = (0, 5, PROBE_SECONDS, PROBE_SECONDS + 5, PROBE_SECONDS + 10, PROBE_SECONDS + 15)[step]
        servers.replies["a query"] = httpx.Response(503) if step == 3 else up
        servers.replies["a targets"] = targets(entry()) if step == 4 else NOT_FOUND
        servers.asked.append(f"step {step}")

    observations = story(servers, 5, change)
    by_targets = f"Health from the targets API of {A}, readings from queries to {A}"
    assert [getattr(one, "source", "") for one in observations] == [BY_UP, BY_UP, BY_UP, "", by_targets]
    assert [what for what in servers.asked if what.startswith(("step", "a targets"))] == [
        "step 0", "a targets", "step 1", "step 2", "a targets", "step 3", "step 4", "a targets"
    ]  # fmt: skip


def test_where_health_comes_from_is_logged_once_and_when_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "controller")
    servers = Servers({"a query": series(("up", "card-1", 1))})

    def change(step: int) -> None:
        servers.replies["a targets"] = httpx.Response(503) if step == 1 else NOT_FOUND

    story(servers, 4, change)
    assert caplog.messages == [BY_UP]


# ---- Thanos


def thanos(health: str = "up") -> dict[str, object]:
    return entry(health=health, scrapeInterval="", globalUrl="http://card-1:9182/metrics")


@pytest.mark.parametrize(("value", "health"), [(1, UP), (0, DOWN)])
def test_a_target_that_one_replica_behind_thanos_cannot_reach_is_up_if_up_says_so(
    value: float, health: TargetHealth
) -> None:
    servers = Servers({"a targets": targets(thanos(health="down")), "a query": series(("up", "card-1", value))})
    assert shown(servers.survey()) == {"card-1": health}
    assert servers.asked == ["a targets", "a up"]


def test_a_recorded_answer_of_thanos_is_lifted_by_up() -> None:
    name = "targets_thanos_deduplicated_pessimistic.json"
    servers = Servers({"a targets": vector(name), "a query": vector("query_thanos_partial.json")})
    assert shown(servers.survey()) == {"192.168.1.41": UP}


def test_thanos_that_fails_while_a_target_waits_is_asked_for_up_in_that_pass_alone() -> None:
    """The targets keep their addresses, so that nothing seems to vanish."""
    waiting = httpx.Response(500, content=(SAMPLES / "targets_thanos_error_unknown_health.json").read_bytes())
    servers = Servers({"a query": series(("up", "card-1", 1))})

    def change(step: int) -> None:
        servers.replies["a targets"] = waiting if step == 1 else targets(thanos())

    observations = story(servers, 3, change)
    found = [[(one.scrape_url, one.health) for one in getattr(each, "targets", ())] for each in observations]
    assert found == [[("http://card-1:9182/metrics", UP)]] * 3


# ---- a Prometheus that keeps no series

AGENT = httpx.Response(422, content=(SAMPLES / "error_agent_mode.http422.json").read_bytes())
VMAGENT = httpx.Response(400, text='unsupported path requested: "/api/v1/query"')


@pytest.mark.parametrize("refusal", [AGENT, VMAGENT, NOT_FOUND], ids=["an agent", "vmagent", "no API"])
def test_health_alone_can_be_had_of_what_keeps_no_series(refusal: httpx.Response) -> None:
    servers = Servers({"a targets": targets(entry(), entry("card-2", "down")), "a query": refusal})
    observation = servers.survey()
    assert shown(observation) == {"card-1": UP, "card-2": DOWN}
    assert observation == Survey(
        getattr(observation, "targets", ()),
        (),
        queryable=False,
        source=f"Health from the targets API of {A}; no readings, because it takes no queries",
    )


def test_readings_of_an_agents_targets_come_from_another_url() -> None:
    servers = Servers({"a targets": targets(entry()), "b query": series(("gpu_temp_c", "card-1", 40))})
    observation = servers.survey(query=B)
    assert isinstance(observation, Survey)
    assert (observation.samples, observation.queryable) == ((sample("gpu_temp_c", "card-1", 40),), True)
    assert observation.source == f"Health from the targets API of {A}, readings from queries to {B}"
    assert servers.asked == ["a targets", "b series"]


@pytest.mark.parametrize("refusal", [AGENT, VMAGENT, NOT_FOUND], ids=["an agent", "vmagent", "no API"])
def test_a_url_that_is_given_for_queries_must_take_some(refusal: httpx.Response) -> None:
    servers = Servers({"a targets": targets(entry()), "b query": refusal})
    failure = servers.survey(query=B)
    assert isinstance(failure, SourceFailure)
    assert failure.reason is Reason.HTTP_ERROR
    assert failure.message.startswith(f"Prometheus at {B} answered query with {refusal.status_code}")


def test_what_has_taken_queries_before_does_not_turn_into_an_agent_by_a_proxys_404() -> None:
    servers = Servers({"a targets": targets(entry())})

    def change(step: int) -> None:
        servers.replies["a query"] = NOT_FOUND if step else series()

    first, second = story(servers, 2, change)
    assert isinstance(first, Survey)
    assert isinstance(second, SourceFailure)


# ---- replicas

T1, T2 = "2026-08-22T08:14:02Z", "2026-08-22T08:14:07Z"
REFUSED = httpx.ConnectError("Connection refused")


def test_of_two_replicas_the_newest_scrape_of_each_target_counts_and_series_are_joined() -> None:
    servers = Servers({
        "a targets": targets(entry(health="up", lastScrape=T1), entry("card-2", "up", lastScrape=T2)),
        "b targets": targets(entry(health="down", lastScrape=T2), entry("card-2", "down", lastScrape=T1)),
        "a query": series(("gpu_temp_c", "card-2", 40)),
        "b query": series(("gpu_temp_c", "card-2", 41), ("gpu_power_w", "card-2", 50)),
    })  # fmt: skip
    observation = servers.survey(replicas=2)
    assert shown(observation) == {"card-1": DOWN, "card-2": UP}
    assert isinstance(observation, Survey)
    assert observation.samples == (sample("gpu_temp_c", "card-2", 40), sample("gpu_power_w", "card-2", 50))
    both = f"{A} and {B}"
    assert observation.source == f"Health from the targets API of {both}, readings from queries to {both}"
    assert sorted(servers.asked[:2]) == ["a targets", "b targets"], "targets of all before any series"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        pytest.param({"b targets": REFUSED}, f"Prometheus at {B} cannot be reached: Connection refused", id="targets"),
        pytest.param({"b query": REFUSED}, f"Prometheus at {B} cannot be reached: Connection refused", id="series"),
        pytest.param({"b targets": NOT_FOUND},
                     f"Prometheus at {B} answered targets with 404 Not Found: 404 page not found", id="no targets API"),
        pytest.param({"b targets": targets(warnings=["one sidecar"])}, "one sidecar", id="a part, by its own word"),
    ],
)  # fmt: skip
def test_a_replica_that_fails_leaves_a_partial_survey(broken: Replies, said: str) -> None:
    parts = (("targets", targets(entry())), ("query", series()))
    good = {f"{host} {what}": reply for host in "ab" for what, reply in parts}
    observation = Servers({**good, **broken}).survey(replicas=2)
    assert shown(observation) == {"card-1": UP}
    assert isinstance(observation, Survey)
    assert observation.partial == said


def test_replicas_that_all_fail_are_a_fault_that_names_each() -> None:
    servers = Servers({"a targets": REFUSED, "b targets": httpx.Response(503, text="Service Unavailable")})
    assert servers.survey(replicas=2) == SourceFailure(
        Reason.CONNECTION_FAILED,
        f"Prometheus at {A} cannot be reached: Connection refused; "
        f"Prometheus at {B} answered targets with 503 Service Unavailable: Service Unavailable",
    )


def test_a_replica_that_hangs_leaves_time_for_the_other() -> None:
    class Hanging(httpx.AsyncBaseTransport):
        @override
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.host == "b":
                await asyncio.Event().wait()
            return targets(entry()) if request.url.path.endswith("targets") else series()

    async def ask() -> Observation:
        return await Prometheus(SourceConfig((A, B), (A, B)), 0.2, NAMES, Hanging()).survey()

    observation = asyncio.run(ask())
    assert shown(observation) == {"card-1": UP}
    assert isinstance(observation, Survey)
    assert observation.partial == f"Prometheus at {B} gave no answer within 0.1 s"


# ---- what the cards make of it


class Fleet:
    """Two cards that were online, judged pass by pass as the operator judges them."""

    def __init__(self) -> None:
        specs = [GpuNodeSpec(host=host, vram_gb=16) for host in ("card-1", "card-2")]
        nodes = [GpuNode(name=spec.host, uid=spec.host, generation=1, spec=spec) for spec in specs]
        self.plan = Plan(Declared(tuple(nodes), ()), Policy(profiles=built_in()))

    def take_in(self, observation: Observation, at: float) -> list[Phase]:
        start = datetime(2026, 1, 1, tzinfo=UTC)
        self.plan.take_in(observation, Instant(start + timedelta(seconds=at), at))
        return [node.status.phase for node in self.plan.nodes if node.status]


BOTH = series(("gpu_temp_c", "card-1", 40), ("gpu_temp_c", "card-2", 40))
ONLINE = [Phase.ONLINE, Phase.ONLINE]


def phases(replies: Mapping[int, Replies]) -> dict[float, list[Phase]]:
    """Play a story: what is answered from which second on; a pass every five seconds."""
    servers, fleet, times = Servers(), Fleet(), [*replies]
    seen: dict[float, list[Phase]] = {}

    def change(step: int) -> None:
        servers.now = 5.0 * step
        servers.replies.update(replies.get(5 * step, {}))

    for at, observation in enumerate(story(servers, int(times[-1] // 5) + 2, change)):
        seen[5.0 * at] = fleet.take_in(observation, 5.0 * at)
    return seen


def test_p02_targets_that_wait_for_their_first_scrape_change_nothing() -> None:
    waiting = {"health": "unknown", "lastScrape": "0001-01-01T00:00:00Z"}
    good = {"a targets": targets(entry(), entry("card-2")), "a query": BOTH}
    story_: dict[int, Replies] = {
        0: good,
        5: {"a targets": targets(), "a query": series()},
        15: {"a targets": targets(entry(**waiting))},
        25: {"a targets": targets(entry(**waiting), entry("card-2", **waiting))},
        45: good,
    }
    assert set(map(tuple, phases(story_).values())) == {tuple(ONLINE)}


def test_p03_phases_hold_while_the_log_is_replayed_and_the_first_good_answer_counts_at_once() -> None:
    unready = httpx.Response(503, text="Service Unavailable")
    good = {"a targets": targets(entry(), entry("card-2")), "a query": BOTH}
    seen = phases({0: good, 5: {"a targets": unready, "a query": unready}, 305: good})
    assert set(map(tuple, seen.values())) == {tuple(ONLINE)}


def test_an_agents_targets_that_are_up_make_a_card_online_without_readings() -> None:
    seen = phases({0: {"a targets": targets(entry(), entry("card-2", "down")), "a query": AGENT}})
    assert seen[5] == [Phase.ONLINE, Phase.UNEXPECTED_DOWN]


def test_where_health_comes_from_stands_in_the_condition_and_stays_the_same() -> None:
    fleet, servers = Fleet(), Servers({"a targets": targets(entry(), entry("card-2")), "a query": BOTH})
    said = set()
    for step in range(3):
        fleet.take_in(servers.survey(), 5.0 * step)
        status = fleet.plan.topology.status
        assert status
        (found,) = [one for one in status.conditions if one.type is Condition.SOURCE_AVAILABLE]
        said.add((found.status, found.reason, found.message))
    by_targets = f"Health from the targets API of {A}, readings from queries to {A}"
    assert said == {("True", Reason.ANSWERING, by_targets)}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param('strconv.ParseFloat: parsing "N/A": invalid syntax', None, id="a parse error"),
        pytest.param('Get "http://card-1:9182/metrics": dial tcp: connect: no route to host', None, id="no route"),
        pytest.param("x509: certificate signed by unknown authority", None, id="x509"),
        pytest.param("", None, id="none"),
        pytest.param('Get "http://u:s3cret@card-1/m?gpu=0&access_token=s3cret": EOF',
                     'Get "http://card-1/m?gpu=0&access_token=***": EOF', id="a URL with secrets"),
        pytest.param("x" * 9999, "x" * 299 + "…", id="a long one"),
    ],
)  # fmt: skip
def test_g05_a_failed_scrape_is_told_without_secrets_and_changes_the_phase_whatever_its_error(
    error: str, told: str | None
) -> None:
    down = entry(health="down", lastError=error, lastScrape="2026-08-22T08:14:02Z")
    servers = Servers({"a targets": targets(down, entry("card-2")), "a query": series(("gpu_temp_c", "card-2", 40))})
    observation = servers.survey()
    assert isinstance(observation, Survey)
    assert observation.targets[0].last_error == (error if told is None else told)
    assert Fleet().take_in(observation, 0) == [Phase.UNEXPECTED_DOWN, Phase.ONLINE]


# ---- size


def test_p01_dropped_targets_are_never_asked_for() -> None:
    def answering(asked: Asked) -> Answer:
        if asked.path.endswith("/query"):
            return Answer(200, series().content)
        if asked.params.get("state") == "active":
            return Answer(200, targets(*[entry(f"h{number}") for number in range(200)]).content)
        return Answer(
            200, json.dumps({"status": "success", "data": {"droppedTargets": ["x" * 4000] * 50_000}}).encode()
        )

    async def ask() -> Observation:
        with FakeServer(answering) as server:
            async with Prometheus(SourceConfig((server.url,), (server.url,)), 30, NAMES) as source:
                return await source.survey()

    assert len(shown(asyncio.run(ask()))) == 200


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(httpx.Response(200, html="<html>Sign in</html>" * 99), id="200 with HTML"),
        pytest.param(httpx.Response(403, html="<p>no</p>\n" * 8400), id="403 with 84 kB of HTML"),
        pytest.param(httpx.Response(200, json={"status": "error", "error": '"' * 999}), id="200 with an error"),
        pytest.param(httpx.Response(200, text='{"status":"success","data":{"activeTargets":[{"sc'), id="JSON cut off"),
        pytest.param(httpx.Response(200, content=b"\xef\xbb\xbf" + targets().content), id="a BOM before JSON"),
    ],
)
def test_p16_what_a_proxy_says_instead_is_a_fault_with_a_short_reason(reply: httpx.Response) -> None:
    failure = Servers({"a targets": reply}).survey()
    assert isinstance(failure, SourceFailure)
    assert (len(failure.message) < 500, failure.message.isprintable()) == (True, True)
    assert failure.reason in {Reason.HTTP_ERROR, Reason.INVALID_ANSWER}


def test_p16_a_login_page_on_the_same_server_is_a_fault_too() -> None:
    def answering(asked: Asked) -> Answer:
        return Answer(200, b"<html>") if asked.path == "/login" else Answer(302, headers={"Location": "/login"})

    async def ask() -> Observation:
        with FakeServer(answering) as server:
            async with Prometheus(SourceConfig((server.url,), (server.url,)), 30, NAMES) as source:
                return await source.survey()

    failure = asyncio.run(ask())
    assert isinstance(failure, SourceFailure)
    assert failure.reason is Reason.INVALID_ANSWER
