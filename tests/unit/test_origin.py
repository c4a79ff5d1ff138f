"""How Prometheus is reached: addresses, redirects, connections, credentials, certificates and proxies."""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.access import Access, SourceConfig, proxy_for
from controller.facts import Observation, SourceFailure, Survey
from controller.names import Reason
from controller.origin import URL_BYTES, Origin, OriginError
from controller.prometheus import Prometheus
from controller.settings import load
from lab.processes import wait_for
from tests.certificates import Pair
from tests.fake_server import Answer, Answering, Asked, FakeServer

TARGETS = (
    b'{"status":"success","data":{"activeTargets":[{"scrapeUrl":"http://h:1/metrics","labels":{},"health":"up"}]}}'
)
NAMES = {"gpu_temp_c"}
SERIES = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


def well(asked: Asked) -> Answer:
    return Answer(200, TARGETS if asked.path.endswith("/targets") else SERIES)


def config(*urls: str, access: Access | None = None) -> SourceConfig:
    return SourceConfig(targets=urls, query=urls, access=access or Access())


def survey(source: SourceConfig) -> Observation:
    async def ask() -> Observation:
        async with Prometheus(source, 30, NAMES) as prometheus:
            return await prometheus.survey()

    return asyncio.run(ask())


def failure(source: SourceConfig) -> SourceFailure:
    observation = survey(source)
    assert isinstance(observation, SourceFailure)
    return observation


def succeeds(source: SourceConfig) -> bool:
    return isinstance(survey(source), Survey)


# ---- addresses


@pytest.mark.parametrize("prefix", ["/prometheus", ""])
@pytest.mark.parametrize("end", ["", "/", "//"])
def test_p18_every_spelling_of_a_base_url_keeps_its_path(prefix: str, end: str) -> None:
    def only_there(asked: Asked) -> Answer:
        return well(asked) if asked.path.startswith(f"{prefix}/api/v1/") else Answer(404, b"404 page not found\n")

    with FakeServer(only_there) as server:
        assert succeeds(load({"prometheus_url": f"{server.url}{prefix}{end}"}).source)


def test_p18_p12_a_wrong_path_is_told_with_the_urls_that_were_tried() -> None:
    with FakeServer(lambda _asked: Answer(404, b"404 page not found\n")) as server:
        url = f"{server.url}/wrong"
        assert failure(config(url)) == SourceFailure(
            Reason.HTTP_ERROR,
            f"Prometheus at {url} answered query with 404 Not Found: 404 page not found; "
            f"and {url}/api/v1/targets is no targets API: is the path of the URL right?",
        )


# ---- redirects


def redirecting(location: Callable[[Asked], str | None], status: int = 302) -> Answering:
    def answering(asked: Asked) -> Answer:
        place = location(asked)
        return well(asked) if place is None else Answer(status, headers={"Location": place})

    return answering


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_place_of_the_same_server_is_followed_with_credentials(status: int) -> None:
    def moved(asked: Asked) -> str | None:
        return None if asked.path.startswith("/new") else f"/new{asked.path}?{'&'.join(asked.params)}"

    with FakeServer(redirecting(moved, status)) as server:
        assert succeeds(config(server.url.replace("//", "//u:p@")))
    assert [asked.path for asked in server.asked] == [
        "/api/v1/targets", "/new/api/v1/targets", "/api/v1/query", "/new/api/v1/query"
    ]  # fmt: skip
    assert {asked.headers["Authorization"] for asked in server.asked} == {"Basic dTpw"}


@pytest.mark.parametrize(
    ("location", "said"),
    [
        pytest.param("http://127.0.0.2:1/login?next=s3cret#part", "http://127.0.0.2:1/login", id="another host"),
        pytest.param("https://{authority}/login", "https://{authority}/login", id="another scheme"),
        pytest.param("http://127.0.0.1:1/login", "http://127.0.0.1:1/login", id="another port"),
        pytest.param("//u:s3cret@127.0.0.2/", "http://127.0.0.2/", id="another host, with a password"),
    ],
)
def test_a_redirect_to_another_server_is_not_followed_but_told(location: str, said: str) -> None:
    with FakeServer(well) as server:
        server.answering = redirecting(lambda _asked: location.format(authority=server.authority))
        message = f"Prometheus at {server.url} answered targets with 302 Found: it points to {said}"
        assert failure(config(server.url)) == SourceFailure(
            Reason.HTTP_ERROR, message.format(authority=server.authority)
        )
    assert len(server.asked) == 1


def test_redirects_have_an_end() -> None:
    with FakeServer(redirecting(lambda asked: asked.path)) as server:
        said = f"Prometheus at {server.url} answered targets with more than 3 redirects"
        assert failure(config(server.url)) == SourceFailure(Reason.HTTP_ERROR, said)
    assert len(server.asked) == 4


@pytest.mark.parametrize("location", ["http://[", "http://h:99999999/", ""])
def test_a_redirect_to_nowhere_is_an_error_like_any_other(location: str) -> None:
    with FakeServer(redirecting(lambda _asked: location)) as server:
        assert failure(config(server.url)).reason is Reason.HTTP_ERROR


# ---- what is posted


LONG = {"query": "x" * URL_BYTES}


def ask_long(answering: Answering, times: int = 1) -> tuple[list[str], list[dict[str, str]]]:
    """Ask with more than fits into a URL; return the methods and the parameters that came in."""

    async def ask(url: str) -> list[bytearray]:
        origin = Origin(url, Access())
        try:
            return [await origin.get("query", LONG) for _ in range(times)]
        finally:
            await origin.aclose()

    with FakeServer(answering) as server:
        assert asyncio.run(ask(server.url)) == [SERIES] * times
    return [asked.method for asked in server.asked], [dict(asked.params) for asked in server.asked]


def test_a_long_query_is_posted() -> None:
    assert ask_long(well) == (["POST"], [LONG])


@pytest.mark.parametrize("status", [403, 404, 405, 501])
def test_where_nothing_may_be_posted_long_queries_go_into_the_url_from_then_on(status: int) -> None:
    def only_get(asked: Asked) -> Answer:
        return well(asked) if asked.method == "GET" else Answer(status)

    assert ask_long(only_get, times=2) == (["POST", "GET", "GET"], [LONG] * 3)


def test_a_posted_query_is_posted_again_where_it_is_redirected_to() -> None:
    def moved(asked: Asked) -> str | None:
        return None if asked.path == "/new" else "/new"

    assert ask_long(redirecting(moved)) == (["POST", "POST"], [LONG, LONG])


def test_what_is_wrong_with_a_posted_query_is_told_without_another_try() -> None:
    with pytest.raises(OriginError, match="answered query with 400 Bad Request: parse error"):
        ask_long(lambda _asked: Answer(400, b"parse error"))


# ---- connections


def test_p21_a_connection_that_was_closed_meanwhile_costs_no_pass() -> None:
    def closing(asked: Asked) -> Answer:
        dropped = asked.connection % 2 and len(server.asked) % 3 == 0
        return Answer(0) if dropped else well(asked)._replace(closes=len(server.asked) % 2 == 0)

    async def passes() -> list[Observation]:
        async with Prometheus(config(server.url), 30, NAMES) as prometheus:
            return [await prometheus.survey() for _ in range(100)]

    with FakeServer(closing) as server:
        assert [one for one in asyncio.run(passes()) if isinstance(one, SourceFailure)] == []
        assert len(server.asked) > 200, "some were dropped and asked again"
        wait_for("no connection is left open", lambda: server.open == 0, 10)


def test_p21_a_server_that_always_hangs_up_is_a_fault() -> None:
    with FakeServer(lambda _asked: Answer(0)) as server:
        assert failure(config(server.url)) == SourceFailure(
            Reason.CONNECTION_FAILED,
            f"Prometheus at {server.url} cannot be reached: Server disconnected without sending a response.",
        )
    assert len(server.asked) == 2


def test_one_connection_serves_all_passes() -> None:
    async def passes() -> None:
        async with Prometheus(config(server.url), 30, NAMES) as prometheus:
            for _ in range(5):
                await prometheus.survey()

    with FakeServer(well) as server:
        asyncio.run(passes())
    assert {asked.connection for asked in server.asked} == {1}


# ---- credentials


def needing(authorization: Callable[[], str]) -> Answering:
    def answering(asked: Asked) -> Answer:
        return well(asked) if asked.headers.get("Authorization") == authorization() else Answer(401, b"Unauthorized\n")

    return answering


def test_a_password_comes_from_the_settings_or_from_a_file_that_may_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "password"
    wanted = "Basic dTpwOjE="  # u, p:1
    with FakeServer(needing(lambda: wanted)) as server:
        assert succeeds(config(server.url, access=Access(username="u", password="p:1")))  # noqa: S106 - invented
        access = Access(username="u", password_file=str(file))
        file.write_text("p:1\n")
        assert succeeds(config(server.url, access=access))
        file.write_text("p:2\n")
        assert not succeeds(config(server.url, access=access))


def test_k20_a_token_that_is_replaced_counts_at_the_next_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    valid = "first"

    async def passes() -> list[bool]:
        nonlocal valid
        source = config(server.url, access=Access(token_file=str(file)))
        outcomes = []
        async with Prometheus(source, 30, NAMES) as prometheus:
            for valid in ("first", "first", "second", "second"):
                _replace(file, f"{valid}\n")
                outcomes.append(isinstance(await prometheus.survey(), Survey))
        return outcomes

    with FakeServer(needing(lambda: f"Bearer {valid}")) as server:
        assert asyncio.run(passes()) == [True] * 4


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        pytest.param(None, "cannot be read: No such file or directory", id="no file any more"),
        pytest.param(b" \n", "holds no token", id="an empty file"),
        pytest.param(b"s3\ncret", "holds no token", id="two lines"),
        pytest.param("s3crét".encode(), "holds no token", id="a letter that no header takes"),
        pytest.param(b"\xffs3cret", "is no text", id="bytes"),
    ],
)
def test_a_token_that_cannot_be_read_is_told_by_its_file(tmp_path: Path, written: bytes | None, fault: str) -> None:
    file = tmp_path / "token"
    if written is not None:
        file.write_bytes(written)
    with FakeServer(well) as server:
        said = f"Prometheus at {server.url} cannot be asked: {file} {fault}"
        source = config(server.url, access=Access(token_file=str(file)))
        assert failure(source) == SourceFailure(Reason.CONNECTION_FAILED, said)
    assert server.asked == []


def test_headers_of_the_settings_are_sent_but_cannot_ask_for_compression() -> None:
    access = Access(headers={"X-Scope-OrgID": "lab|home", "accept-encoding": "gzip"})
    with FakeServer(well) as server:
        assert succeeds(config(server.url, access=access))
    sent = {(asked.headers["X-Scope-OrgID"], asked.headers["Accept-Encoding"]) for asked in server.asked}
    assert sent == {("lab|home", "identity")}


def test_no_secret_that_a_server_sends_back_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "token"
    file.write_text("t0ken-of-the-lab")
    accesses = [
        Access(token_file=str(file), headers={"X-Key": "header-s3cret"}),
        Access(username="u", password="p4ssword"),  # noqa: S106 - invented
        Access(),
    ]

    def echo(asked: Asked) -> Answer:
        return Answer(500, "".join(f"{name}: {value}\n" for name, value in asked.headers.items()).encode())

    with FakeServer(echo) as server:
        told = [failure(config(server.url, access=access)).message for access in accesses[:2]]
        told.append(failure(config(server.url.replace("//", "//u:p4ssword@"))).message)
    assert [message.count("***") for message in told] == [2, 1, 1]
    for secret in ("t0ken-of-the-lab", "header-s3cret", "p4ssword", "dTpwNHNzd29yZA=="):
        assert secret not in f"{told} {caplog.text} {accesses}"


# ---- certificates


def server_context(pair: Pair, clients_of: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    if clients_of:
        context.load_verify_locations(clients_of.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _replace(file: Path, text: str) -> None:
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(text)
    unfinished.rename(file)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair.authority(tmp_path_factory.mktemp("authority"), "lab")


def test_p19_a_server_of_an_unknown_authority_is_not_believed(authority: Pair, tmp_path: Path) -> None:
    pair = authority.issue(tmp_path, "server", "127.0.0.1")
    with FakeServer(well, tls=server_context(pair)) as server:
        found = failure(config(server.url))
        assert found.reason is Reason.CONNECTION_FAILED
        assert "certificate verify failed: unable to get local issuer certificate" in found.message
        assert succeeds(config(server.url, access=Access(ca_file=str(authority.certificate))))
    assert server.asked[0].path == "/api/v1/targets"


def test_p19_a_certificate_of_another_host_is_not_believed(authority: Pair, tmp_path: Path) -> None:
    pair = authority.issue(tmp_path, "server", "127.0.0.2")
    with FakeServer(well, tls=server_context(pair)) as server:
        found = failure(config(server.url, access=Access(ca_file=str(authority.certificate))))
    assert found.reason is Reason.CONNECTION_FAILED
    assert "certificate verify failed: IP address mismatch" in found.message
    assert server.asked == []


def test_p19_any_certificate_will_do_only_where_that_is_asked_for_and_it_is_logged(
    authority: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = authority.issue(tmp_path, "server", "127.0.0.2")
    with FakeServer(well, tls=server_context(pair)) as server:
        assert succeeds(config(server.url, access=Access(insecure=True)))
        assert caplog.messages == [
            f"Certificates of {server.url} are not verified, as prometheus_insecure asks",
        ]


def test_p19_an_authority_that_is_replaced_counts_at_the_next_request(authority: Pair, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    _replace(file, Pair.authority(tmp_path, "other").certificate.read_text())
    pair = authority.issue(tmp_path, "server", "127.0.0.1")

    async def passes() -> list[bool]:
        async with Prometheus(config(server.url, access=Access(ca_file=str(file))), 30, NAMES) as prometheus:
            before = isinstance(await prometheus.survey(), Survey)
            _replace(file, authority.certificate.read_text())
            return [before, isinstance(await prometheus.survey(), Survey)]

    with FakeServer(well, tls=server_context(pair)) as server:
        assert asyncio.run(passes()) == [False, True]


def test_a_server_that_wants_certificates_is_shown_the_one_of_the_settings(authority: Pair, tmp_path: Path) -> None:
    tls = server_context(authority.issue(tmp_path, "server", "127.0.0.1"), clients_of=authority)
    client, other = (authority.issue(tmp_path, name, "127.0.0.1") for name in ("client", "other"))
    trusting = Access(ca_file=str(authority.certificate))
    shown = Access(
        ca_file=str(authority.certificate), cert_file=str(client.certificate), key_file=str(client.key)
    )  # fmt: skip

    async def passes() -> list[Observation]:
        async with Prometheus(config(server.url, access=shown), 30, NAMES) as prometheus:
            observations = [await prometheus.survey()]
            for file, text in (
                (client.certificate, other.certificate.read_text()),
                (client.key, other.key.read_text()),
            ):
                _replace(file, text)
                observations.append(await prometheus.survey())
            return observations

    with FakeServer(well, tls=tls) as server:
        assert failure(config(server.url, access=trusting)).reason is Reason.CONNECTION_FAILED
        first, between, last = asyncio.run(passes())
        assert isinstance(first, Survey)
        assert between == SourceFailure(
            Reason.CONNECTION_FAILED,
            f"Prometheus at {server.url} cannot be asked: {client.certificate} and {client.key} "
            "are no certificate and its key: KEY_VALUES_MISMATCH",
        )
        assert isinstance(last, Survey)


# ---- proxies


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    for name in [*os.environ]:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)

    def set_(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_


def test_p15_proxies_of_the_environment_are_for_others_unless_asked_for(proxies: Callable[..., None]) -> None:
    proxies(HTTP_PROXY="http://127.0.0.1:1", HTTPS_PROXY="http://127.0.0.1:1", NO_PROXY="10.0.0.0/8,localhost,fd00::/8")
    with FakeServer(well) as server:
        assert succeeds(config(server.url))
        assert not succeeds(config(server.url, access=Access(proxy=True)))
        proxies(NO_PROXY="10.0.0.0/8,127.0.0.0/8,fd00::/8")
        assert succeeds(config(server.url, access=Access(proxy=True)))


def test_p15_a_proxy_that_is_asked_for_is_used(proxies: Callable[..., None]) -> None:
    with FakeServer(well) as proxy:
        proxies(HTTP_PROXY=proxy.url)
        assert succeeds(config("http://prometheus.lab:9090", access=Access(proxy=True)))
    assert {asked.headers["Host"] for asked in proxy.asked} == {"prometheus.lab:9090"}


@pytest.mark.parametrize("proxy", ["socks5://u:s3cret@127.0.0.1:1", "s3cret", "ftp://u:s3cret@h"])
def test_p15_a_proxy_that_cannot_be_used_is_told_without_its_url(proxies: Callable[..., None], proxy: str) -> None:
    proxies(HTTP_PROXY=proxy)
    assert failure(config("http://127.0.0.1:1", access=Access(proxy=True))) == SourceFailure(
        Reason.CONNECTION_FAILED,
        "Prometheus at http://127.0.0.1:1 cannot be asked: "
        "the proxy that the environment names is none that can be used",
    )


@pytest.mark.parametrize(
    ("excepted", "host", "is_proxied"),
    [
        pytest.param("", "h", True, id="no exception"),
        pytest.param("*", "h", False, id="everything"),
        pytest.param("prometheus.lab", "Prometheus.Lab", False, id="a name, whatever its case"),
        pytest.param("lab", "prometheus.lab", False, id="what is below a name"),
        pytest.param(".lab, .home", "prometheus.lab", False, id="written with a dot"),
        pytest.param("*.lab", "prometheus.lab", False, id="written with a star"),
        pytest.param("lab", "collab", True, id="not what only ends alike"),
        pytest.param("192.168.1.40", "192.168.1.40", False, id="an address"),
        pytest.param("192.168.0.0/16", "192.168.1.40", False, id="a network"),
        pytest.param("192.168.1.7/16", "192.168.1.40", False, id="a network by one of its addresses"),
        pytest.param("10.0.0.0/8", "192.168.1.40", True, id="another network"),
        pytest.param("fd00::/8,[::1]", "fd00::40", False, id="a network of IPv6"),
        pytest.param("10.0.0.0/8", "prometheus.lab", True, id="a name is in no network"),
        pytest.param("1.2.3.4/99,a/b,:", "h", True, id="nonsense"),
    ],
)
def test_p15_exceptions_from_the_proxy(
    proxies: Callable[..., None], excepted: str, host: str, is_proxied: bool  # noqa: FBT001 - a column
) -> None:  # fmt: skip
    proxies(HTTP_PROXY="http://proxy", NO_PROXY=excepted)
    assert (proxy_for("http", host) == "http://proxy") is is_proxied
