"""Durations survive jumps of the wall clock, and after a restart are never longer than they were."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from controller.facts import Instant
from controller.stopwatch import Stopwatch

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
PASSED = st.floats(min_value=0, max_value=3600)


@given(passed=PASSED, jump=st.integers(min_value=-86400, max_value=86400))
def test_a_jump_of_the_wall_clock_changes_no_duration(passed: float, jump: int) -> None:
    first = Stopwatch({}, Instant(START, 100.0))
    assert first.seconds_since("uid", "mode", START) == 0
    later = Instant(START + timedelta(seconds=passed + jump), 100.0 + passed)
    assert Stopwatch(first.marks, later).seconds_since("uid", "mode", START) == later.mono - 100.0


@given(passed=PASSED, fraction=st.integers(min_value=0, max_value=999_999))
def test_a_restart_lengthens_a_window_by_a_second_at_most(passed: float, fraction: int) -> None:
    made = START + timedelta(microseconds=fraction)
    now = Instant(made + timedelta(seconds=passed), 7.0)
    measured = Stopwatch({}, now).seconds_since("uid", "mode", START)
    assert max(passed - 1.001, 0) <= measured <= passed + 0.001


def test_a_stamp_from_the_future_counts_as_made_now() -> None:
    watch = Stopwatch({}, Instant(START, 7.0))
    assert watch.seconds_since("uid", "mode", START + timedelta(hours=1)) == 0


def test_the_stamp_of_a_moment_to_come_is_not_before_it() -> None:
    watch = Stopwatch({}, Instant(START + timedelta(microseconds=1), 7.0))
    assert (watch.stamp, watch.stamp_in(30)) == (START, START + timedelta(seconds=31))
