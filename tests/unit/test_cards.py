"""A card's status over time: what Prometheus shows, the time of grace, and what stays while nothing is known."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf

import pytest

from controller.cards import CONFIRM_SECONDS, Assessment, View, assess
from controller.conditions import find
from controller.facts import (
    ConditionStatus,
    GpuNode,
    GpuNodeSpec,
    GpuNodeStatus,
    Health,
    Instant,
    Phase,
    Policy,
    Readings,
    Sample,
    SourceFailure,
    Survey,
    Target,
    TargetHealth,
    TargetStatus,
)
from controller.matching import look
from controller.names import Condition, Reason
from controller.profiles import built_in
from controller.readings import recognise, values
from controller.stopwatch import Stopwatch

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
LABELS = {"job": "gpu", "instance": "h:9182"}
SPEC = GpuNodeSpec(host="h", vram_gb=16)
FAILURE = SourceFailure(Reason.CONNECTION_FAILED, "refused")


POLICY = Policy(profiles=built_in())


def survey(*states: TargetHealth, series: bool = False) -> Survey:
    targets = tuple(Target("http://h:9182/metrics", "h", 9182, LABELS, state, "") for state in states)
    return Survey(targets, recognise([Sample("gpu_temp_c", LABELS, 40)], POLICY.profiles) if series else ())


PRESENT, BARE, ABSENT = survey(TargetHealth.UP, series=True), survey(TargetHealth.UP), survey()


class Card:
    """A card that is looked at again and again, as passes do."""

    def __init__(self) -> None:
        self.node = GpuNode(name="n", uid="n", generation=1, spec=SPEC)
        self.marks: dict[tuple[str, str, datetime], float] = {}
        self.suspected_at: float | None = None

    def look(
        self, seconds: float, seen: Survey | SourceFailure, *, jump: float = 0, recovered_seconds: float = inf
    ) -> Assessment:
        wall = START + timedelta(seconds=seconds + jump)
        watch = Stopwatch(self.marks, Instant(wall, 100 + seconds))
        findings = seen if isinstance(seen, SourceFailure) else look((self.node,), seen, POLICY)
        since = seconds if self.suspected_at is None else self.suspected_at
        view = View(findings, POLICY, watch, recovered_seconds)
        assessment = assess(self.node, view, suspected_seconds=seconds - since)
        self.marks, self.suspected_at = watch.marks, since if assessment.suspect else None
        self.node = replace(self.node, status=assessment.status)
        return assessment


def truths(status: GpuNodeStatus) -> dict[Condition, ConditionStatus]:
    return {condition.type: condition.status for condition in status.conditions}


def test_the_first_look_says_it_all() -> None:
    status = Card().look(0, PRESENT).status
    assert replace(status, conditions=()) == GpuNodeStatus(
        observed_generation=1,
        model="n",
        phase=Phase.ONLINE,
        health=Health.ONLINE,
        reason=Reason.TARGETS_UP,
        message="The target is up",
        targets=(TargetStatus(scrape_url="http://h:9182/metrics", job="gpu", health=TargetHealth.UP),),
        last_transition_time=START,
        gpu_temp_c=40,
    )
    yes = ConditionStatus.TRUE
    assert truths(status) == {Condition.READY: yes, Condition.ONLINE: yes, Condition.TARGET_MATCHED: yes}


def test_a_card_never_judged_is_not_ready_while_prometheus_is_silent() -> None:
    status = Card().look(0, FAILURE).status
    assert (status.phase, status.health, status.reason) == (Phase.UNKNOWN, Health.UNKNOWN, Reason.SOURCE_UNAVAILABLE)
    unclear = ConditionStatus.UNKNOWN
    assert truths(status) == {Condition.READY: unclear, Condition.ONLINE: unclear, Condition.TARGET_MATCHED: unclear}


def test_the_transition_time_is_that_of_the_phase() -> None:
    card = Card()
    looks = [(0, PRESENT), (10, PRESENT), (20, survey(TargetHealth.DOWN)), (30, survey(TargetHealth.DOWN))]
    since = [card.look(seconds, seen).status.last_transition_time for seconds, seen in looks]
    assert since == [START, START, START + timedelta(seconds=20), START + timedelta(seconds=20)]


def test_missing_series_are_looked_at_twice_before_an_online_card_is_down() -> None:
    card = Card()
    online = card.look(0, PRESENT).status
    assert card.look(5, BARE) == Assessment(online, suspect=True, look_again=CONFIRM_SECONDS)
    down = card.look(6, BARE).status
    assert (down.phase, down.reason, values(down)) == (
        Phase.UNEXPECTED_DOWN,
        Reason.METRICS_MISSING,
        values(Readings()),
    )


@pytest.mark.parametrize(
    "jump",
    [
        pytest.param(0, id="on a steady clock"),
        pytest.param(3600, id="also where the wall clock jumps forward"),
        pytest.param(-3600, id="also where the wall clock jumps back"),
    ],
)
def test_an_online_card_without_a_target_is_unknown_after_its_time_of_grace(jump: float) -> None:
    card = Card()
    card.look(0, PRESENT)
    looks = [card.look(10, ABSENT), card.look(69, ABSENT, jump=jump), card.look(70, ABSENT, jump=jump)]
    assert [(look.status.phase, look.look_again) for look in looks] == [
        (Phase.ONLINE, 60),
        (Phase.ONLINE, 1),
        (Phase.UNKNOWN, None),
    ]


@pytest.mark.parametrize(
    "back",
    [
        pytest.param(PRESENT, id="up with series"),
        pytest.param(BARE, id="up without series yet"),
        pytest.param(survey(TargetHealth.UNKNOWN), id="not scraped yet"),
    ],
)
def test_a_target_that_came_back_starts_the_time_of_grace_anew(back: Survey) -> None:
    card = Card()
    for seconds, seen in ((0, PRESENT), (10, ABSENT), (15, back)):
        returned = card.look(seconds, seen)
    assert truths(returned.status)[Condition.TARGET_MATCHED] is ConditionStatus.TRUE
    look = card.look(80, ABSENT)
    assert (look.status.phase, look.look_again) == (Phase.ONLINE, 60)


def test_a_held_judgement_leaves_the_status_as_it_stands() -> None:
    card = Card()
    online = card.look(0, PRESENT).status
    assert [card.look(10, FAILURE), card.look(20, survey(TargetHealth.UNKNOWN))] == [Assessment(online)] * 2


def test_a_declaration_that_changes_while_prometheus_is_silent_is_observed() -> None:
    card = Card()
    down = card.look(0, survey(TargetHealth.DOWN)).status
    card.node = replace(card.node, generation=2, spec=replace(SPEC, expected_offline=True))
    held = card.look(10, FAILURE).status
    assert (held.observed_generation, held.phase, held.health) == (2, Phase.EXPECTED_OFFLINE, Health.OFFLINE)
    assert held.targets == down.targets
    ready = find(held.conditions, Condition.READY)
    assert ready is not None
    assert (ready.status, ready.reason) == (ConditionStatus.UNKNOWN, Reason.SOURCE_UNAVAILABLE)


def test_a_spec_that_cannot_be_read_is_unknown_and_says_so() -> None:
    card = Card()
    card.node = replace(card.node, spec=None, problem="spec.host: Field required")
    status = card.look(0, PRESENT).status
    assert (status.phase, status.reason) == (Phase.UNKNOWN, Reason.INVALID_SPEC)
    assert status.message == "spec.host: Field required; edit this GpuNode"


@pytest.mark.parametrize(
    ("before", "after", "phase"),
    [
        pytest.param(PRESENT, survey(TargetHealth.DOWN), Phase.ONLINE, id="an online card does not go down"),
        pytest.param(PRESENT, BARE, Phase.ONLINE, id="an online card does not lose its series"),
        pytest.param(ABSENT, survey(TargetHealth.DOWN), Phase.UNKNOWN, id="an unknown card does not go down"),
        pytest.param(survey(TargetHealth.DOWN), PRESENT, Phase.ONLINE, id="a card comes up at once"),
    ],
)
def test_a_prometheus_that_is_back_makes_nothing_worse_before_a_scrape_interval_has_passed(
    before: Survey, after: Survey, phase: Phase
) -> None:
    card = Card()
    card.look(0, before)
    assert card.look(100, after, recovered_seconds=0).status.phase is phase
    assert card.look(159, after, recovered_seconds=59).status.phase is phase
    settled = card.look(160, after, recovered_seconds=60)
    assert settled.status.phase is (Phase.ONLINE if after is PRESENT else Phase.UNEXPECTED_DOWN)


def test_the_loop_looks_again_when_that_interval_ends() -> None:
    card = Card()
    card.look(0, PRESENT)
    assert card.look(100, survey(TargetHealth.DOWN), recovered_seconds=20).look_again == 40
