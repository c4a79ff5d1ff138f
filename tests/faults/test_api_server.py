"""Whatever the API server does to the operator, within 30 s after it the state is what a fresh start would give."""

import time
from http import HTTPStatus

import pytest

from lab.processes import wait_for
from tests.faults.conftest import Stage, lasting
from tests.faults.proxy import BOTH, READS, Fault, Trouble

SOAK = pytest.mark.soak
NODES, TOPOLOGIES = frozenset({"gpunodes"}), frozenset({"runtimetopologies"})
GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
BROKEN = {"type": "ERROR", "object": {"kind": "Status", "code": 500, "reason": "InternalError", "message": "broken"}}


def change(stage: Stage) -> None:
    """Delete a card, declare another, and make a new one of a third, all behind the operator's back."""
    stage.delete("b", "c")
    stage.declare(c=True, d=False)


def is_healed(stage: Stage, seconds: float = 30) -> None:
    stage.comes_to(seconds, a="online", c="online", d="unexpected_down")
    stage.judge()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(HTTPStatus.INTERNAL_SERVER_ERROR, NODES, READS), id="500 on reads of cards"),
        pytest.param(Fault(HTTPStatus.FORBIDDEN, NODES, READS), id="403 on reads of cards", marks=SOAK),
        pytest.param(Fault(HTTPStatus.SERVICE_UNAVAILABLE, BOTH), id="503 on everything of ours", marks=SOAK),
        pytest.param(
            Fault(Trouble.HANG, TOPOLOGIES, frozenset({"watch"})), id="no answer to watches of topologies", marks=SOAK
        ),
    ],
)
def test_k01_reads_that_fail_for_a_while_leave_nobody_deaf(stage: Stage, fault: Fault) -> None:
    stage.start(a=True, b=True, c=True)
    stage.proxy.faults = (fault,)
    stage.proxy.cut()
    change(stage)
    time.sleep(lasting(3, 75))
    stage.proxy.faults = ()
    is_healed(stage)


@pytest.mark.parametrize("kinds", [pytest.param(NODES, id="one kind", marks=SOAK), pytest.param(BOTH, id="both kinds")])
@SOAK
def test_k03_connections_that_are_reset_while_watches_open_lose_no_edit(stage: Stage, kinds: frozenset[str]) -> None:
    stage.start(a=True, b=False)
    stage.proxy.faults = (Fault(Trouble.RESET, kinds, READS),)
    since = time.monotonic()
    stage.proxy.cut()
    stage.declare(b=False, expected_offline=True)
    wait_for("three opens are reset", lambda: len(stage.proxy.seen("gpunodes", "watch", since)) >= 3, 60)
    stage.proxy.faults = ()
    stage.comes_to(30, a="online", b="expected_offline")
    stage.judge()


@pytest.mark.parametrize("kinds", [pytest.param(NODES, id="one kind", marks=SOAK), pytest.param(BOTH, id="both kinds")])
@SOAK
def test_k04_a_watch_without_bytes_and_without_end_is_made_up_for(stage: Stage, kinds: frozenset[str]) -> None:
    stage.start(a=True, b=True, c=True)
    stage.proxy.black_hole(kinds)
    change(stage)
    is_healed(stage, 90)


@SOAK
def test_k05_a_storm_of_429_ends_without_a_change_of_mode_and_is_not_answered_with_one(stage: Stage) -> None:
    stage.start(a=True, b=True)
    mode = stage.mode()
    stage.proxy.faults = (Fault(HTTPStatus.TOO_MANY_REQUESTS, headers=("Retry-After: 1",)),)
    stage.proxy.cut()
    began, seconds = time.monotonic(), lasting(4, 120)
    time.sleep(seconds)
    lists = stage.proxy.seen("gpunodes", "list", began)
    patches = Fault(HTTPStatus.TOO_MANY_REQUESTS, verbs=frozenset({"patch"}), headers=("Retry-After: 1",))
    stage.proxy.faults = (patches,)
    healed = time.monotonic()
    stage.declare(c=True)
    wait_for("a write is refused", lambda: stage.proxy.seen("gpunodes/status", "patch", healed), 30, stage.operator)
    stage.proxy.faults = ()
    stage.comes_to(30, a="online", b="online", c="online")
    assert stage.mode() == mode
    assert len(lists) <= 3 * seconds, "one a second by the loop, and kopf's own"
    stage.judge()


@pytest.mark.parametrize("event", [pytest.param(GONE, id="410"), pytest.param(BROKEN, id="500", marks=SOAK)])
def test_an_error_inside_a_stream_loses_no_edit(stage: Stage, event: object) -> None:
    stage.start(a=True, b=True, c=True)
    stage.proxy.faults = (Fault(Trouble.RESET, BOTH, READS),)
    stage.proxy.inject(event)
    change(stage)
    stage.proxy.faults = ()
    is_healed(stage)


@SOAK
def test_writes_that_conflict_are_made_again_from_what_is_there(stage: Stage) -> None:
    stage.start(a=True, b=True, c=True)
    stage.proxy.faults = (Fault(HTTPStatus.CONFLICT, verbs=frozenset({"patch"})),)
    since = time.monotonic()
    change(stage)
    wait_for("a write conflicts", lambda: stage.proxy.seen("gpunodes/status", "patch", since), 30, stage.operator)
    stage.proxy.faults = ()
    is_healed(stage)


@SOAK
def test_requests_that_take_long_lose_no_edit(stage: Stage) -> None:
    stage.start(a=True, b=True, c=True)
    stage.proxy.faults = (Fault(2.0),)
    change(stage)
    time.sleep(lasting(3, 60))
    stage.proxy.faults = ()
    is_healed(stage)


@SOAK
def test_half_open_connections_cost_no_more_than_a_request_may_take(stage: Stage) -> None:
    stage.start(a=True, b=True, c=True)
    stage.proxy.black_hole()
    stage.proxy.faults = (Fault(Trouble.HANG),)
    change(stage)
    time.sleep(lasting(3, 60))
    stage.proxy.faults = ()
    is_healed(stage, 90)


@SOAK
def test_k26_an_api_server_that_cannot_be_reached_at_the_start_is_waited_for(stage: Stage) -> None:
    stage.topology()
    stage.declare(a=True, b=False)
    stage.proxy.refuse()
    stage.operator.start()
    wait_for("the log says so", lambda: "Cannot list" in stage.log(), 30, stage.operator)
    time.sleep(lasting(2, 45))
    stage.proxy.accept()
    stage.comes_to(15, a="online", b="unexpected_down")
    assert stage.log().count("Cannot list") == 1
    stage.judge()


def test_an_api_server_and_etcd_that_restart_and_have_forgotten_the_past_leave_no_ghost(stage: Stage) -> None:
    stage.start(a=True, b=True, c=True)
    stage.proxy.refuse()
    change(stage)
    stage.recorder.history()
    stage.compact()
    stage.plane.stop()
    stage.plane.resume()
    stage.proxy.accept()
    is_healed(stage)


@SOAK
def test_k17_kinds_that_are_missing_at_the_start_or_deleted_later_are_served_without_a_restart(stage: Stage) -> None:
    crds = ("crd", "gpunodes.runtime.ialab.dev", "runtimetopologies.runtime.ialab.dev")
    stage.kubectl("delete", *crds, "--timeout=30s")
    stage.operator.start()
    missing = "The API server does not serve gpunodes of runtime.ialab.dev/v1alpha1: apply the CRDs"
    wait_for("the log says what is missing", lambda: missing in stage.log(), 30, stage.operator)
    time.sleep(lasting(2, 60))
    assert stage.log().count(missing) == 1
    stage.install()
    stage.topology()
    stage.declare(a=True)
    stage.comes_to(30, a="online")
    wait_for("both kinds are watched", stage.proxy.watched, 30, stage.operator)
    stage.kubectl("delete", *crds, "--timeout=30s")
    stage.install()
    stage.topology()
    stage.declare(b=True)
    stage.comes_to(30, b="online")
    wait_for("both kinds are watched", stage.proxy.watched, 60, stage.operator)
    stage.judge()


@SOAK
def test_three_hundred_cards_at_once_are_all_judged_and_listed(stage: Stage) -> None:
    stage.start(a=True)
    stage.declare(**{f"card-{number}": True for number in range(300)})
    stage.comes_to(60, a="online", **{f"card-{number}": "online" for number in range(300)})
    stage.judge()


@SOAK
def test_a_card_that_is_deleted_while_its_change_is_pending_changes_nothing_later(stage: Stage) -> None:
    stage.topology(window=10)
    stage.declare(a=True, b=True)
    stage.operator.start()
    stage.comes_to(30, a="online", b="online")
    stage.prometheus.up["b"] = False
    pending = "--output=jsonpath={.status.pendingMode}"
    wait_for(
        "a change is pending", lambda: stage.kubectl("get", "runtimetopology", "cluster", pending), 10, stage.operator
    )
    stage.delete("b")
    stage.comes_to(30, a="online")
    assert stage.mode() == "single_gpu"
    stage.judge()


@SOAK
def test_k12_an_idle_cluster_is_not_written_to(stage: Stage) -> None:
    stage.start(**dict.fromkeys("abcde", True))
    before = len(stage.recorder.history())
    time.sleep(lasting(5, 600))
    assert len(stage.recorder.history()) == before
    stage.judge()
