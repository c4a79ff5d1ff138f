"""Conditions are all there from the first write, and a transition time moves with the status alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from controller.conditions import MESSAGE_LIMIT, State, find, truth, update
from controller.facts import Condition, ConditionStatus
from controller.names import Condition as Type
from controller.names import Reason

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = THEN + timedelta(hours=1)
TRUE, FALSE, UNCLEAR = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
READY = Condition(
    type=Type.READY,
    status=TRUE,
    reason=Reason.CURRENT,
    message="",
    last_transition_time=THEN,
    observed_generation=1,
)


@pytest.mark.parametrize(
    ("value", "status"),
    [
        pytest.param(True, TRUE, id="true is True"),
        pytest.param(False, FALSE, id="false is False"),
        pytest.param(None, UNCLEAR, id="not known is Unknown, not False"),
    ],
)
def test_truth(value: bool | None, status: ConditionStatus) -> None:  # noqa: FBT001 - a column
    assert truth(value) is status


@pytest.mark.parametrize(
    ("last", "state", "generation", "condition"),
    [
        pytest.param(
            (), State(TRUE, Reason.CURRENT), 1, replace(READY, last_transition_time=NOW),
            id="a new condition holds from now",
        ),
        pytest.param((READY,), State(TRUE, Reason.CURRENT), 1, READY, id="what stays the same keeps its time"),
        pytest.param(
            (READY,), State(TRUE, Reason.SETTLED, "calm"), 1, replace(READY, reason=Reason.SETTLED, message="calm"),
            id="another reason or message moves no time",
        ),
        pytest.param(
            (READY,), State(TRUE, Reason.CURRENT), 2, replace(READY, observed_generation=2),
            id="another generation is observed and moves no time",
        ),
        pytest.param(
            (READY,), State(UNCLEAR, Reason.SOURCE_UNAVAILABLE, "gone"), 1,
            Condition(
                type=Type.READY, status=UNCLEAR, reason=Reason.SOURCE_UNAVAILABLE, message="gone",
                last_transition_time=NOW, observed_generation=1,
            ),
            id="another status moves the time",
        ),
        pytest.param(
            (READY,), State(TRUE, Reason.CURRENT, "x" * (MESSAGE_LIMIT + 1)), 1,
            replace(READY, message="x" * MESSAGE_LIMIT),
            id="a message is cut where the CRD's limit is",
        ),
    ],
)  # fmt: skip
def test_update(last: tuple[Condition, ...], state: State, generation: int, condition: Condition) -> None:
    assert update(last, {Type.READY: state}, generation, NOW) == (condition,)


def test_conditions_are_listed_as_the_states_are_and_nothing_else_stays() -> None:
    state = State(TRUE, Reason.CURRENT)
    stalled = replace(READY, type=Type.STALLED)
    fresh = update((stalled, READY), {Type.READY: state, Type.ONLINE: state}, 1, NOW)
    assert fresh == (READY, replace(READY, type=Type.ONLINE, last_transition_time=NOW))


def test_a_condition_is_found_by_its_type() -> None:
    assert (find((READY,), Type.READY), find((READY,), Type.STALLED)) == (READY, None)
