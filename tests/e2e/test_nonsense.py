"""A Prometheus that answers nonsense: nothing is believed, nothing changes, and the truth is taken up again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from lab.processes import Process, wait_for
from lab.scene import Scene
from tests.e2e.conftest import borrowed
from tests.e2e.views import DEADLINE_SECONDS, condition, manifests, nodes, show, status, wait_for_mode, window

PORT = 9091
Answer = Callable[[BaseHTTPRequestHandler], object]


@dataclass
class Story:
    """Two cards, and an operator that hears of them what Prometheus says, or what a test puts in its place."""

    scene: Scene
    operator: Process
    prometheus: httpx.Client
    nonsense: Answer | None = None
    asked: int = 0

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked += 1
        if self.nonsense:
            self.nonsense(request)
        else:
            found = self.prometheus.get(request.path)
            send(request, found.status_code, found.text)

    def wait_until_asked(self, more: int) -> None:
        wanted = self.asked + more
        wait_for(f"{more} more requests", lambda: self.asked >= wanted, DEADLINE_SECONDS, self.operator)

    def wait_for_source(self, truth: str, reason: str) -> Any:  # noqa: ANN401 - JSON
        """Return the topology's status once its condition SourceAvailable is so."""

        def said() -> Any:  # noqa: ANN401 - JSON
            found = status(self.scene)
            return found if condition(found, "SourceAvailable") == (truth, reason) else None

        return wait_for(f"SourceAvailable {truth} {reason}", said, DEADLINE_SECONDS, self.operator)


def send(request: BaseHTTPRequestHandler, code: int, body: str, *, length: int | None = None) -> None:
    request.send_response_only(code)
    request.send_header("Content-Length", str(len(body.encode()) if length is None else length))
    request.end_headers()
    request.wfile.write(body.encode())


@pytest.fixture(scope="module")
def told(lab: Scene) -> Iterator[Story]:
    address = f"{lab.network}40", PORT
    # The text of a failure that lasts is written as often as the one of the first is.
    settings = {"PROMETHEUS_URL": f"http://{address[0]}:{PORT}", "POLL_SECONDS": "0.5", "TELEMETRY_SECONDS": "0"}
    prometheus = httpx.Client(base_url=lab.prometheus.url, trust_env=False)
    story = Story(lab, lab.operator(**settings), prometheus)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            story.answer(self)

    with prometheus, ThreadingHTTPServer(address, Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            with borrowed(lab):
                lab.kubectl.apply(lab.samples)
                lab.kubectl.apply(manifests(window(0)))
                story.operator.start()
                yield story
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def story(told: Story) -> Iterator[Story]:
    """Begin with two cards online; the truth is told again in the end."""
    show(told.scene, "node-1", "node-2")
    wait_for_mode(told.scene, told.operator, "multi_gpu", rx9070="online", rx7900xt="online")
    told.wait_for_source("True", "Answering")
    yield told
    told.nonsense = None


NO_PROMETHEUS = "gave an answer that is not Prometheus'"
NONSENSE: dict[str, tuple[Answer, str, str]] = {
    "a web page": (
        lambda request: send(request, HTTPStatus.OK, "<title>Sign in</title>"),
        "InvalidAnswer",
        (
            f"{NO_PROMETHEUS} (targets: Invalid JSON: expected value at line 1 column 1; "
            "it begins with '<title>Sign in</title>')"
        ),
    ),
    "JSON of another program": (
        lambda request: send(request, HTTPStatus.OK, '{"status": "success", "data": {"targets": []}}'),
        "InvalidAnswer",
        (
            f"{NO_PROMETHEUS} (targets: data.activeTargets: Field required; "
            """it begins with '{"status": "success", "data": {"targets": []}}')"""
        ),
    ),
    "an error": (
        lambda request: send(request, HTTPStatus.INTERNAL_SERVER_ERROR, "out of\nmemory"),
        "HttpError",
        "answered targets with 500 Internal Server Error: out of memory",
    ),
    "half an answer": (
        lambda request: send(request, HTTPStatus.OK, '{"status": "succ', length=1000),
        "ConnectionFailed",
        (
            "cannot be reached: peer closed connection without sending complete message body "
            "(received 16 bytes, expected 1000)"
        ),
    ),
    "no answer": (
        lambda request: request.connection.recv(1),  # until the operator gives up and closes
        "TimedOut",
        "gave no answer within 0.45 s",
    ),
}


@pytest.mark.parametrize(("nonsense", "reason", "message"), NONSENSE.values(), ids=NONSENSE)
def test_nonsense_changes_nothing_but_the_conditions(story: Story, nonsense: Answer, reason: str, message: str) -> None:
    cards, before = nodes(story.scene), status(story.scene)

    story.nonsense = nonsense
    story.wait_for_source("False", reason)
    story.wait_until_asked(3)

    after = status(story.scene)
    said = f"Prometheus at http://{story.scene.network}40:{PORT} {message}"
    assert nodes(story.scene) == cards
    moving = {"conditions": (), "observedAt": ""}
    assert {**after, **moving} == {**before, **moving}
    assert {entry["type"]: (entry["status"], entry["reason"], entry["message"]) for entry in after["conditions"]} == {
        "Ready": ("Unknown", "SourceUnavailable", said),
        "Degraded": ("False", "SeveralCardsOnline", "2 of 2 cards online"),
        "SourceAvailable": ("False", reason, said),
        "ServicesHealthy": ("True", "NoServices", ""),
        "Reconciling": ("False", "Settled", ""),
        "Stalled": ("False", "Current", ""),
    }

    story.nonsense = None

    recovered = story.wait_for_source("True", "Answering")
    assert condition(recovered, "Ready") == ("True", "Current")
    assert recovered["transitions"] == before["transitions"]


def test_what_happens_under_cover_of_nonsense_shows_when_the_truth_is_told_again(story: Story) -> None:
    story.nonsense = NONSENSE["an error"][0]
    story.wait_for_source("False", "HttpError")
    cards = nodes(story.scene)
    show(story.scene, "node-1")
    story.wait_until_asked(3)
    assert nodes(story.scene) == cards

    story.nonsense = None

    wait_for_mode(story.scene, story.operator, "degraded_single_gpu", rx9070="online", rx7900xt="expected_offline")
