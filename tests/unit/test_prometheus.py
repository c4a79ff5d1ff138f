"""Whatever Prometheus answers or fails to do, a survey says what it shows, or in one sentence why nothing is known."""

import asyncio
import json
import logging
import math
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import override

from controller import origin
from controller.access import SourceConfig
from controller.facts import Observation, Sample, SourceFailure, Survey, Target, TargetHealth
from controller.names import Reason
from controller.prometheus import Prometheus

BASE = "http://192.168.1.40:9090"
Handler = Callable[[httpx.Request], httpx.Response]
BOTH = pytest.mark.parametrize("what", ["targets", "query"])


class Chunks(httpx.AsyncByteStream):
    """A body as a network brings it, which counts how much of it was asked for."""

    def __init__(self, *chunks: bytes, stalls: bool = False) -> None:
        self.chunks, self.stalls, self.taken = chunks, stalls, 0

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            self.taken += len(chunk)
            yield chunk
        if self.stalls:
            await asyncio.Event().wait()


def respond(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Handler:
    return lambda _request: httpx.Response(status, headers=headers, stream=Chunks(body))


def success(data: object) -> Handler:
    return respond(200, json.dumps({"status": "success", "data": data}).encode())


def no_targets(_request: httpx.Request) -> httpx.Response:
    return success({"activeTargets": []})(_request)


def no_series(_request: httpx.Request) -> httpx.Response:
    return success({"resultType": "vector", "result": []})(_request)


SERIES = {"gpu_temp_c", "gpu_power_w"}


def survey(
    targets: Handler = no_targets, query: Handler = no_series, base: str = BASE, timeout_seconds: float = 30
) -> Observation:
    def handle(request: httpx.Request) -> httpx.Response:
        return (targets if request.url.path.endswith("/targets") else query)(request)

    async def ask() -> Observation:
        config = SourceConfig(targets=(base,), query=(base,))
        async with Prometheus(config, timeout_seconds, SERIES, httpx.MockTransport(handle)) as source:
            return await source.survey()

    observation = asyncio.run(ask())
    return replace(observation, source="") if isinstance(observation, Survey) else observation


def entry(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {
        "scrapeUrl": "http://192.168.1.50:9183/metrics",
        "labels": {"job": "gpu", "instance": "192.168.1.50:9183"},
        "health": "up",
        **fields,
    }


def surveyed(host: str = "192.168.1.50", port: int = 9183, **fields: Any) -> Target:  # noqa: ANN401 - any field
    labels = {"job": "gpu", "instance": "192.168.1.50:9183"}
    return Target("http://192.168.1.50:9183/metrics", host, port, labels, TargetHealth.UP, "")._replace(**fields)


def survey_with(what: str, handler: Handler, timeout_seconds: float = 30) -> Observation:
    """Ask a Prometheus of which one endpoint is special."""
    return survey(**{what: handler}, timeout_seconds=timeout_seconds)  # type: ignore[arg-type] # of two handlers one


def answer(**data: object) -> dict[str, object]:
    return {"status": "success", "data": data}


# ---- what is asked


@pytest.mark.parametrize(
    ("base", "prefix"),
    [
        pytest.param(BASE, "", id="at the root"),
        pytest.param(f"{BASE}/", "", id="at the root, with a final slash"),
        pytest.param(f"{BASE}/a/prometheus", "/a/prometheus", id="below a path, which is kept"),
    ],
)
def test_two_requests_are_made(base: str, prefix: str) -> None:
    asked: list[tuple[str, str, dict[str, str], str]] = []

    def noted(handler: Handler) -> Handler:
        def handle(request: httpx.Request) -> httpx.Response:
            url, encoding = request.url, request.headers["Accept-Encoding"]
            asked.append((request.method, str(url.copy_with(query=None)), dict(url.params), encoding))
            return handler(request)

        return handle

    one_target = success({"activeTargets": [entry()]})
    assert survey(noted(one_target), noted(no_series), base) == Survey((surveyed(),), ())
    series = "gpu_power_w|gpu_temp_c"
    assert asked == [
        ("GET", f"{BASE}{prefix}/api/v1/targets", {"state": "active"}, "identity"),
        ("GET", f"{BASE}{prefix}/api/v1/query", {"query": '{__name__=~"' + series + '"}', "nocache": "1"}, "identity"),
    ]


def test_credentials_of_the_url_go_to_prometheus_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sent: list[tuple[str, str]] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append((str(request.url), request.headers["Authorization"]))
        return respond(401, b"Unauthorized")(request)

    assert survey(refuse, base="http://reader:s3cr%40t@192.168.1.40:9090/p") == SourceFailure(
        Reason.HTTP_ERROR,
        "Prometheus at http://192.168.1.40:9090/p answered targets with 401 Unauthorized: Unauthorized",
    )
    assert sent == [("http://192.168.1.40:9090/p/api/v1/targets?state=active", "Basic cmVhZGVyOnMzY3JAdA==")]
    assert "401 Unauthorized" in caplog.text
    assert "s3cr" not in caplog.text


# ---- what is shown


@pytest.mark.parametrize(
    ("shown", "target"),
    [
        pytest.param(entry(), surveyed(), id="a target is taken as it stands"),
        pytest.param(
            entry(discoveredLabels={"__scheme__": "http"}, scrapePool="gpu", globalUrl=None, new=1),
            surveyed(),
            id="fields that nobody needs are left out",
        ),
        pytest.param(
            entry(
                discoveredLabels={
                    "__address__": "10.42.3.17:9400",
                    "__meta_kubernetes_pod_node_name": "gpu-node-1",
                    "__meta_kubernetes_namespace": "gpu",
                }
            ),
            surveyed(discovered={"__address__": "10.42.3.17:9400", "__meta_kubernetes_pod_node_name": "gpu-node-1"}),
            id="of what was discovered the address and the node are kept",
        ),
        pytest.param(entry(discoveredLabels=None), surveyed(), id="what was discovered may be dropped"),
        pytest.param(
            entry(health="down", lastError="connection refused"),
            surveyed(health=TargetHealth.DOWN, last_error="connection refused"),
            id="a target that is down says why",
        ),
        pytest.param(
            entry(health="unknown", lastError=""),
            surveyed(health=TargetHealth.UNKNOWN),
            id="a target that was not scraped yet is unknown",
        ),
        pytest.param(
            entry(lastScrape="2026-01-01T12:00:00.5+01:00", scrapeInterval="1m30s"),
            surveyed(last_scrape="2026-01-01T12:00:00.5+01:00", scrape_seconds=90),
            id="a target says when and how often it is scraped",
        ),
        pytest.param(
            entry(discoveredLabels={"__scrape_interval__": "15s", "__address__": "x"}),
            surveyed(scrape_seconds=15, discovered={"__address__": "x"}),
            id="Thanos and VictoriaMetrics say how often only among what they discovered",
        ),
        pytest.param(
            entry(scrapeUrl="http://u:p@192.168.1.50:9183/metrics?card=1&api_key=s3cret", lastError="token=a: no"),
            surveyed(scrape_url="http://192.168.1.50:9183/metrics?card=1&api_key=***", last_error="token=a: no"),
            id="no password and no token of a scrape URL is shown",
        ),
        pytest.param(entry(scrapeInterval="500ms"), surveyed(scrape_seconds=0.5), id="that can be twice a second"),
        pytest.param(entry(scrapeInterval="now and then"), surveyed(), id="what is no duration is not believed"),
        pytest.param(
            entry(lastError=" a\r\n\tb \x1b[31m\x00c\u202e "),
            surveyed(last_error="a b [31mc"),
            id="an error becomes one printable line",
        ),
        pytest.param(
            entry(lastError="x" * 301), surveyed(last_error="x" * 299 + "…"), id="a long error is cut, and shows that"
        ),
    ],
)
def test_a_target(shown: object, target: Target) -> None:
    assert survey(success({"activeTargets": [shown]})) == Survey((target,), ())


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        pytest.param("http://GPU.Lab:9183/metrics", "gpu.lab", 9183, id="a name has no capitals"),
        pytest.param("http://gpu.lab.:9183/metrics", "gpu.lab", 9183, id="a name has no final dot"),
        pytest.param("http://[FD00:0:0::0001]:9183/", "fd00::1", 9183, id="IPv6 has no brackets and is short"),
        pytest.param("http://gpu.lab/metrics", "gpu.lab", 80, id="http has port 80"),
        pytest.param("https://gpu.lab/metrics", "gpu.lab", 443, id="https has port 443"),
        pytest.param("http://gpu.lab:99999/metrics", "", 0, id="a port that cannot be belongs to no card"),
        pytest.param("http://[fd00::1/metrics", "", 0, id="an address that cannot be belongs to no card"),
        pytest.param("", "", 0, id="no address belongs to no card"),
    ],
)
def test_the_address_of_a_target(url: str, host: str, port: int) -> None:
    """A mistyped address of a foreign target must not make the whole answer unbelievable."""
    target = surveyed(host, port, scrape_url=url)
    assert survey(success({"activeTargets": [entry(scrapeUrl=url)]})) == Survey((target,), ())


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        pytest.param("42", 42, id="a whole number"),
        pytest.param("1e-07", 1e-07, id="a small one"),
        pytest.param("9223372036854776000", 2.0**63, id="a sentinel, which readings sort out"),
        pytest.param("+Inf", math.inf, id="infinity, likewise"),
        pytest.param("-Inf", -math.inf, id="minus infinity, likewise"),
    ],
)
def test_the_value_of_a_series(shown: str, value: float) -> None:
    metric = {"__name__": "gpu_temp_c", "job": "gpu", "gpu": "0"}
    vector = {"resultType": "vector", "result": [{"metric": metric, "value": [1764565200.123, shown]}]}
    assert survey(query=success(vector)) == Survey((), (Sample("gpu_temp_c", metric, value),))


def test_nan_is_a_value_which_readings_sort_out() -> None:
    vector = {"resultType": "vector", "result": [{"metric": {"__name__": "gpu_temp_c"}, "value": [1, "NaN"]}]}
    observation = survey(query=success(vector))
    assert isinstance(observation, Survey)
    assert [(sample.name, math.isnan(sample.value)) for sample in observation.samples] == [("gpu_temp_c", True)]


def test_native_histograms_and_series_that_nobody_asked_for_are_left_out() -> None:
    result = [
        {"metric": {"__name__": "gpu_temp_c"}, "histogram": [1, {"count": "1", "sum": "2", "buckets": []}]},
        {"metric": {"__name__": "process_start_time_seconds"}, "value": [1, "1"]},
        {"metric": {}, "value": [1, "1"]},
        {"metric": {"__name__": "gpu_power_w"}, "value": [1, "49"]},
    ]
    power = Sample("gpu_power_w", {"__name__": "gpu_power_w"}, 49)
    assert survey(query=success({"resultType": "vector", "result": result})) == Survey((), (power,))


LACKS = [
    pytest.param({}, "", id="a whole answer"),
    pytest.param({"isPartial": None, "warnings": None, "infos": ["i"], "stats": {}}, "", id="fields that say nothing"),
    pytest.param({"isPartial": False, "warnings": []}, "", id="an answer that says it is whole"),
    pytest.param({"isPartial": True}, "isPartial is set", id="a part of VictoriaMetrics is missing"),
    pytest.param({"warnings": ["no\x1b[0m\nstore", "b"]}, "no[0m store; b", id="a part of Thanos is missing"),
    pytest.param({"warnings": ["x" * 999] * 9}, "x" * 299 + "…", id="many words"),
]


@BOTH
@pytest.mark.parametrize(("said", "partial"), LACKS)
def test_what_an_answer_says_that_it_lacks(what: str, said: dict[str, object], partial: str) -> None:
    whole = {"targets": answer(activeTargets=[]), "query": answer(resultType="vector", result=[])}[what]
    assert survey_with(what, respond(200, json.dumps(whole | said).encode())) == Survey((), (), partial=partial)


# ---- what fails


@BOTH
@pytest.mark.parametrize(
    ("status", "headers", "body", "said"),
    [
        pytest.param(301, {"Location": "http://b/?next=t0ken"}, b"", "301 Moved Permanently: it points to http://b/",
                     id="a redirect to another server is told without its query"),
        pytest.param(304, {}, b"", "304 Not Modified", id="a 3xx without a place to go"),
        pytest.param(422, {}, b'{"status":"error"}', '422 Unprocessable Entity: {"status":"error"}',
                     id="JSON is told as it is"),
        pytest.param(401, {}, b"Unauthorized\n", "401 Unauthorized: Unauthorized", id="plain text"),
        pytest.param(403, {}, b"<html>\r\n  <h1>No\x1b[0m</h1>\x00", "403 Forbidden: <html> <h1>No[0m</h1>",
                     id="HTML becomes one printable line"),
        pytest.param(422, {}, b'{"status":"err', '422 Unprocessable Entity: {"status":"err', id="JSON that is cut off"),
        pytest.param(429, {}, b"", "429 Too Many Requests", id="no body"),
        pytest.param(500, {}, b"x" * 2_000_000, "500 Internal Server Error: " + "x" * 299 + "…", id="a huge body"),
        pytest.param(502, {"Content-Encoding": "gzip"}, b"\x1f\x8b garbage", "502 Bad Gateway", id="a compressed body"),
        pytest.param(503, {"Content-Type": "text/plain; charset=klingon"}, b"\xffbusy",
                     "503 Service Unavailable: \N{REPLACEMENT CHARACTER}busy", id="bytes in no known charset"),
        pytest.param(599, {}, b"", "599", id="a status without a name"),
    ],
)  # fmt: skip
def test_an_http_error(what: str, status: int, headers: dict[str, str], body: bytes, said: str) -> None:
    message = f"Prometheus at {BASE} answered {what} with {said}"
    assert survey_with(what, respond(status, body, headers)) == SourceFailure(Reason.HTTP_ERROR, message)


def one_target(**fields: object) -> dict[str, object]:
    return answer(activeTargets=[entry(**fields)])


def one_series(**fields: object) -> dict[str, object]:
    return answer(resultType="vector", result=[{"metric": {}, **fields}])


@pytest.mark.parametrize(
    ("what", "answer", "fault"),
    [
        ("targets", [], "Input should be an object"),
        ("targets", None, "Input should be an object"),
        ("targets", {}, "status: Field required"),
        ("targets", {"status": "error", "error": "TSDB not ready"}, "status: Input should be 'success'"),
        ("targets", {"status": "success"}, "data: Field required"),
        ("targets", {"status": "success", "data": []}, "data: Input should be an object"),
        ("targets", answer(), "data.activeTargets: Field required"),
        ("targets", answer(activeTargets=None), "data.activeTargets: Input should be a valid array"),
        ("targets", answer(activeTargets=[1]), "data.activeTargets.0: Input should be an object"),
        ("targets", answer(activeTargets=[entry(), {}]), "data.activeTargets.1.scrapeUrl: Field required"),
        ("targets", one_target(scrapeUrl=1), "data.activeTargets.0.scrapeUrl: Input should be a valid string"),
        ("targets", one_target(labels=[]), "data.activeTargets.0.labels: Input should be an object"),
        ("targets", one_target(labels={"job": 1}), "data.activeTargets.0.labels.job: Input should be a valid string"),
        ("targets", one_target(health="?"), "data.activeTargets.0.health: Input should be 'up', 'down' or 'unknown'"),
        ("targets", answer(activeTargets=[]) | {"warnings": [1]}, "warnings.0: Input should be a valid string"),
        ("targets", one_target(lastScrape=0), "data.activeTargets.0.lastScrape: Input should be a valid string"),
        ("targets", one_target(lastError=None), "data.activeTargets.0.lastError: Input should be a valid string"),
        ("query", {"status": "error", "error": "too many samples"}, "status: Input should be 'success'"),
        ("query", {"status": "success", "data": None}, "data: Input should be an object"),
        ("query", answer(), "data.resultType: Field required"),
        ("query", answer(resultType="matrix", result=[]), "data.resultType: Input should be 'vector'"),
        ("query", answer(resultType="vector"), "data.result: Field required"),
        ("query", answer(resultType="vector", result={}), "data.result: Input should be a valid array"),
        ("query", answer(resultType="vector", result=[[]]), "data.result.0: Input should be an object"),
        ("query", answer(resultType="vector", result=[{}]), "data.result.0.metric: Field required"),
        ("query", one_series(metric={"gpu": 0}), "data.result.0.metric.gpu: Input should be a valid string"),
        ("query", one_series(value="42"), "data.result.0.value: Input should be a valid array"),
        ("query", one_series(value=[1]), "data.result.0.value.1: Field required"),
        ("query", one_series(value=[1, None]), "data.result.0.value.1: Input should be a valid number"),
    ],
)
def test_json_of_another_shape(what: str, answer: object, fault: str) -> None:
    body = json.dumps(answer)
    message = f"Prometheus at {BASE} gave an answer that is not Prometheus' ({what}: {fault}; it begins with {body!r})"
    assert survey_with(what, respond(200, body.encode())) == SourceFailure(Reason.INVALID_ANSWER, message)


@BOTH
@pytest.mark.parametrize(
    ("body", "fault"),
    [
        pytest.param(b"", "EOF while parsing a value at line 1 column 0; it begins with ''", id="nothing"),
        pytest.param(b"<!doctype html>\n<title>Log in</title>",
                     "expected value at line 1 column 1; it begins with '<!doctype html> <title>Log in</title>'",
                     id="the page of a login"),
        pytest.param(b'{"status":"success",', "EOF while parsing a value at line 1 column 20; it begins with "
                     """'{"status":"success",'""", id="JSON that is cut off"),
        pytest.param(b"\xef\xbb\xbf{}", "expected value at line 1 column 1; it begins with '{}'", id="a BOM"),
        pytest.param('{"ä'.encode("latin-1"), "EOF while parsing a string at line 1 column 3; it begins with "
                     """'{"\N{REPLACEMENT CHARACTER}'""", id="another charset"),
        pytest.param(b'"\\ud800"', "unexpected end of hex escape at line 1 column 8; it begins with "
                     """'"\\\\ud800"'""", id="half a character"),
        pytest.param(b"[" * 1_000_000, "recursion limit exceeded at line 1 column 202; it begins with "
                     f"'{'[' * 299}…'", id="a million brackets"),
    ],
)  # fmt: skip
def test_a_body_that_is_no_json(what: str, body: bytes, fault: str) -> None:
    message = f"Prometheus at {BASE} gave an answer that is not Prometheus' ({what}: Invalid JSON: {fault})"
    assert survey_with(what, respond(200, body)) == SourceFailure(Reason.INVALID_ANSWER, message)


@BOTH
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "gzip, gzip", "br", "unheard-of"])
def test_a_compressed_body_is_never_unpacked(what: str, encoding: str) -> None:
    """A few bytes may unpack to gigabytes; and garbage does not unpack at all."""
    body = Chunks(b"\x1f\x8b garbage")
    headers = {"Content-Encoding": encoding}
    message = (
        f"Prometheus at {BASE} gave an answer that is not Prometheus' ({what}: compressed, which was not asked for)"
    )
    observation = survey_with(what, lambda _request: httpx.Response(200, headers=headers, stream=body))
    assert (observation, body.taken) == (SourceFailure(Reason.INVALID_ANSWER, message), 0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["activeTargets", "labels", "health", "result", "metric", "value", "__name__"]) | st.text(),
            inner,
            max_size=4,
        )
    ),
)


@given(targets=JSON, query=JSON)
@example(targets={"activeTargets": [entry(labels={"job": 1})]}, query=None)
def test_no_json_whatever_raises(targets: object, query: object) -> None:
    for observation in (
        survey(success(targets), success(query)),
        survey(query=success(query)),
        survey(respond(200, json.dumps(targets).encode())),
        survey(success({"activeTargets": [targets]})),
        survey(query=success({"resultType": "vector", "result": [query]})),
        survey(respond(404, b""), success(query)),
        survey(
            respond(404, b""),
            success({"resultType": "vector", "result": [{"metric": {"__name__": "up"}, "value": [1, query]}]}),
        ),
        survey(success({"activeTargets": [entry(lastScrape=targets, scrapeInterval=query)]})),
    ):
        assert isinstance(observation, Survey | SourceFailure)


@given(instance=st.text(), scrape=st.text(), error=st.text(), value=st.floats())
def test_no_text_of_a_target_raises(instance: str, scrape: str, error: str, value: float) -> None:
    up = {"resultType": "vector", "result": [
        {"metric": {"__name__": "up", "instance": instance}, "value": [1, str(value)]}
    ]}  # fmt: skip
    for observation in (
        survey(success({"activeTargets": [entry(scrapeUrl=instance, lastScrape=scrape, lastError=error)] * 2})),
        survey(respond(404, b""), success(up)),
    ):
        assert isinstance(observation, Survey)


@given(st.binary())
def test_no_bytes_whatever_raise(body: bytes) -> None:
    observation = survey(respond(200, body))
    assert isinstance(observation, SourceFailure)
    assert observation.message.isprintable()


@BOTH
def test_a_body_beyond_the_limit_is_not_read_to_its_end(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "ANSWER_BYTES", 1000)
    endless = Chunks(*[b"[" * 400] * 100)
    message = f"Prometheus at {BASE} gave an answer that is not Prometheus' ({what}: longer than 1,000 bytes)"
    observation = survey_with(what, lambda _request: httpx.Response(200, stream=endless))
    assert (observation, endless.taken) == (SourceFailure(Reason.INVALID_ANSWER, message), 1200)


def test_a_body_of_just_the_limit_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps(answer(activeTargets=[])).encode().ljust(1000)
    monkeypatch.setattr(origin, "ANSWER_BYTES", 1000)
    assert survey(respond(200, body)) == Survey((), ())


def test_ten_thousand_foreign_targets_with_many_labels_fit() -> None:
    discovered = {f"__meta_kubernetes_pod_annotation_some_long_name_{number}": "value " * 9 for number in range(80)}
    body = json.dumps({"status": "success", "data": {"activeTargets": [entry(discoveredLabels=discovered)]}})
    assert 8_000 < len(body) < origin.ANSWER_BYTES / 10_000


@BOTH
@pytest.mark.parametrize(
    ("error", "reason", "said"),
    [
        pytest.param(httpx.ConnectError("[Errno 111] Connection refused"), Reason.CONNECTION_FAILED,
                     "cannot be reached: [Errno 111] Connection refused", id="a refused connection"),
        pytest.param(httpx.ReadError(""), Reason.CONNECTION_FAILED, "cannot be reached: ReadError",
                     id="a reset, which has no words"),
        pytest.param(httpx.RemoteProtocolError("illegal status line:\n\x1b[1mhi"), Reason.CONNECTION_FAILED,
                     "cannot be reached: illegal status line: [1mhi", id="something that is no HTTP"),
        pytest.param(ssl.SSLError(1, "[SSL] tlsv13 alert certificate required"), Reason.CONNECTION_FAILED,
                     "cannot be reached: [SSL] tlsv13 alert certificate required", id="a certificate that is missing"),
        pytest.param(httpx.ConnectTimeout(""), Reason.TIMED_OUT, "gave no answer within 30 s",
                     id="a connection that is not made in time"),
        pytest.param(httpx.ReadTimeout("read"), Reason.TIMED_OUT, "gave no answer within 30 s", id="a silent server"),
    ],
)  # fmt: skip
def test_a_connection_that_fails(what: str, error: httpx.HTTPError | OSError, reason: Reason, said: str) -> None:
    def fail(_request: httpx.Request) -> httpx.Response:
        raise error

    assert survey_with(what, fail) == SourceFailure(reason, f"Prometheus at {BASE} {said}")


@BOTH
@pytest.mark.parametrize("status", [200, 500])
def test_a_body_that_comes_too_slowly(what: str, status: int) -> None:
    slow = Chunks(b'{"status":', stalls=True)
    observation = survey_with(what, lambda _request: httpx.Response(status, stream=slow), timeout_seconds=0.05)
    message = f"Prometheus at {BASE} gave no answer within 0.05 s"
    assert observation == SourceFailure(Reason.TIMED_OUT, message)
