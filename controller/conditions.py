"""The list of conditions in status: what holds, since when, and why."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from controller.facts import Condition, ConditionStatus
from controller.names import Condition as Type

MESSAGE_LIMIT = 2048
"""How many characters the CRDs take as a message."""


class State(NamedTuple):
    """What a condition says now."""

    status: ConditionStatus
    reason: str
    message: str = ""


def truth(value: bool | None) -> ConditionStatus:  # noqa: FBT001 - the truth value is all there is to say
    """Spell a truth value as conditions do; None is Unknown."""
    if value is None:
        return ConditionStatus.UNKNOWN
    return ConditionStatus.TRUE if value else ConditionStatus.FALSE


def update(
    last: Sequence[Condition], states: dict[Type, State], generation: int, at: datetime
) -> tuple[Condition, ...]:
    """Return all conditions as they are now, in the order of `states`.

    A transition time moves only with the condition's status.
    """
    before = {condition.type: condition for condition in last}
    return tuple(
        Condition(
            type=kind,
            status=state.status,
            reason=state.reason,
            message=state.message[:MESSAGE_LIMIT],
            last_transition_time=old.last_transition_time
            if (old := before.get(kind)) and old.status is state.status
            else at,
            observed_generation=generation,
        )
        for kind, state in states.items()
    )


def find(conditions: Sequence[Condition], kind: Type) -> Condition | None:
    """Return the condition of a type, where it is there."""
    return next((condition for condition in conditions if condition.type is kind), None)
