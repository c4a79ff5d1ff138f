"""A selector picks what Kubernetes would pick by it."""

import pytest

from controller.facts import LabelRequirement, LabelSelector, Operator
from controller.selectors import picks

LABELS = {"tier": "big", "rack": ""}


def needs(key: str, operator: Operator, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(LabelRequirement(key=key, operator=operator, values=values),))


@pytest.mark.parametrize(
    ("selector", "picked"),
    [
        pytest.param(None, True, id="no selector picks all"),
        pytest.param(LabelSelector(), True, id="an empty selector picks all"),
        pytest.param(LabelSelector(match_labels={"tier": "big"}), True, id="a label that is so"),
        pytest.param(LabelSelector(match_labels={"rack": ""}), True, id="an empty label that is so"),
        pytest.param(LabelSelector(match_labels={"tier": "small"}), False, id="a label that is otherwise"),
        pytest.param(LabelSelector(match_labels={"zone": ""}), False, id="an empty label that is absent"),
        pytest.param(LabelSelector(match_labels={"tier": "big", "zone": "a"}), False, id="one of two labels"),
        pytest.param(needs("tier", Operator.IN, "small", "big"), True, id="In"),
        pytest.param(needs("tier", Operator.IN, "small"), False, id="In other values"),
        pytest.param(needs("zone", Operator.IN, ""), False, id="In, of an absent label"),
        pytest.param(needs("tier", Operator.NOT_IN, "small"), True, id="NotIn"),
        pytest.param(needs("tier", Operator.NOT_IN, "big"), False, id="NotIn its own value"),
        pytest.param(needs("zone", Operator.NOT_IN, "a"), True, id="NotIn, of an absent label"),
        pytest.param(needs("rack", Operator.EXISTS), True, id="Exists, though empty"),
        pytest.param(needs("zone", Operator.EXISTS), False, id="Exists, of an absent label"),
        pytest.param(needs("zone", Operator.DOES_NOT_EXIST), True, id="DoesNotExist"),
        pytest.param(needs("rack", Operator.DOES_NOT_EXIST), False, id="DoesNotExist, of an empty label"),
        pytest.param(
            LabelSelector(
                match_labels={"tier": "big"},
                match_expressions=(LabelRequirement(key="rack", operator=Operator.DOES_NOT_EXIST),),
            ),
            False,
            id="all must hold",
        ),
    ],
)
def test_picks(selector: LabelSelector | None, picked: bool) -> None:  # noqa: FBT001 - a column
    assert picks(selector, LABELS) is picked
