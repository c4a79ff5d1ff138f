"""Whatever the cards do, no two changes of the mode lie within one window."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.facts import Mode
from controller.settling import Settlement, settle

STEPS = st.lists(st.tuples(st.integers(min_value=0, max_value=40), st.sampled_from(Mode)))


def play(steps: list[tuple[int, Mode]], window: int) -> tuple[list[int], Settlement | None]:
    """Return when the mode changed while the cards wanted one mode after another, and what was settled last."""
    now, changed = 0, list[int]()
    settlement: Settlement | None = None
    for wait, candidate in steps:
        now += wait
        before = settlement.mode if settlement else None
        settlement = settle(before, candidate, now - changed[-1] if changed else 0, window)
        if settlement.mode is not before:
            changed.append(now)
    return changed, settlement


@given(steps=STEPS, window=st.integers(min_value=1, max_value=60))
def test_no_two_changes_lie_within_one_window(steps: list[tuple[int, Mode]], window: int) -> None:
    changed, _ = play(steps, window)
    assert all(later - earlier >= window for earlier, later in pairwise(changed))


@given(steps=STEPS, mode=st.sampled_from(Mode))
def test_what_stays_wanted_for_a_window_is_the_mode(steps: list[tuple[int, Mode]], mode: Mode) -> None:
    _, settlement = play([*steps, (0, mode), (30, mode)], 30)
    assert settlement == Settlement(mode)


@pytest.mark.parametrize("mode", [pytest.param(mode, id=f"to {mode}") for mode in Mode])
def test_without_a_window_the_mode_follows_at_once(mode: Mode) -> None:
    assert settle(Mode.SINGLE_GPU, mode, since_seconds=0, window_seconds=0) == Settlement(mode)


def test_the_window_ends_with_what_is_wanted_then_and_not_with_what_was_pending() -> None:
    waiting = settle(Mode.MULTI_GPU, Mode.DEGRADED_SINGLE_GPU, since_seconds=10, window_seconds=30)
    assert waiting == Settlement(Mode.MULTI_GPU, pending=Mode.DEGRADED_SINGLE_GPU, remaining_seconds=20)
    ended = settle(waiting.mode, Mode.INVENTORY_ONLY, since_seconds=30, window_seconds=30)
    assert ended == Settlement(Mode.INVENTORY_ONLY)
