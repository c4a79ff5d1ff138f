"""Several replicas' answers become one by a written rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.facts import Sample, Target, TargetHealth
from controller.replicas import lift, merge_samples, merge_targets, scraped_at

UP, DOWN, WAITING = TargetHealth.UP, TargetHealth.DOWN, TargetHealth.UNKNOWN
OLD, NEW = "2026-08-22T10:14:02+02:00", "2026-08-22T08:14:07.512934811Z"


def target(health: TargetHealth, last_scrape: str = "", host: str = "h") -> Target:
    labels = {"job": "j", "instance": host}
    return Target(f"http://{host}:9182/metrics", host, 9182, labels, health, "", last_scrape)


@pytest.mark.parametrize(
    ("answers", "merged"),
    [
        pytest.param([], [], id="no answer"),
        pytest.param([[target(UP, OLD)]], [target(UP, OLD)], id="one answer"),
        pytest.param([[target(UP, OLD)], [target(DOWN, NEW)]], [target(DOWN, NEW)], id="the newest scrape, if down"),
        pytest.param([[target(UP, NEW)], [target(DOWN, OLD)]], [target(UP, NEW)], id="the newest scrape, if up"),
        pytest.param([[target(WAITING)], [target(DOWN, OLD)]], [target(DOWN, OLD)], id="some scrape before none"),
        pytest.param([[target(DOWN)], [target(UP, "?")]], [target(UP, "?")], id="a scrape at some time before none"),
        pytest.param([[target(DOWN, OLD)], [target(UP, OLD)]], [target(DOWN, OLD)], id="the first one of equals"),
        pytest.param([[target(UP, "20.5")], [target(DOWN, "100.25")]], [target(DOWN, "100.25")], id="times of samples"),
        pytest.param([[target(DOWN, NEW), target(UP, OLD)]], [target(UP, OLD)], id="in one answer: up before down"),
        pytest.param(
            [[target(DOWN, OLD), target(DOWN, NEW)]], [target(DOWN, NEW)], id="in one answer: then the newest"
        ),
        pytest.param(
            [[target(UP, OLD, "a")], [target(DOWN, OLD, "b")]],
            [target(UP, OLD, "a"), target(DOWN, OLD, "b")],
            id="each shard its own",
        ),
    ],
)
def test_targets(answers: list[list[Target]], merged: list[Target]) -> None:
    assert merge_targets(answers) == tuple(merged)


TARGETS = st.builds(target, st.sampled_from(TargetHealth), st.sampled_from(["", OLD, NEW, "?"]), st.sampled_from("ab"))


@given(st.lists(st.lists(TARGETS)))
def test_each_target_is_shown_once_and_as_some_replica_shows_it(answers: list[list[Target]]) -> None:
    merged = merge_targets(answers)
    everything = [one for answer in answers for one in answer]
    assert sorted(one.host for one in merged) == sorted({one.host for one in everything})
    assert all(one in everything for one in merged)


@pytest.mark.parametrize(
    ("last_scrape", "seconds"),
    [
        pytest.param("", 0, id="never"),
        pytest.param("0001-01-01T00:00:00Z", 0, id="Go's zero time"),
        pytest.param("0001-01-01T00:00:00+14:00", 0, id="Go's zero time, east of Greenwich"),
        pytest.param("1970-01-01T02:00:00+02:00", 0, id="vmagent's zero time"),
        pytest.param("1970-01-01T00:00:07.512934811Z", 7.512934, id="nine digits of a second"),
        pytest.param("1787386455.412", 1787386455.412, id="the time of a sample"),
        pytest.param("yesterday", 1, id="at some time"),
    ],
)
def test_the_time_of_a_scrape(last_scrape: str, seconds: float) -> None:
    assert scraped_at(last_scrape) == seconds


def test_series_of_all_replicas_are_taken_each_once_as_the_first_one_shows_it() -> None:
    first, twin, other = (
        Sample("t", {"gpu": "0"}, 1), Sample("t", {"gpu": "0"}, 2), Sample("t", {"gpu": "1"}, 3)
    )  # fmt: skip
    assert merge_samples([[first], [twin, other]]) == (first, other)
    assert merge_samples([[first, twin]]) == (first, twin), "one answer is left as it is"
    assert merge_samples([]) == ()


@pytest.mark.parametrize(
    ("health", "value", "lifted"),
    [
        pytest.param(DOWN, 1, UP, id="down, but some copy is up"),
        pytest.param(DOWN, 0, DOWN, id="down, and no copy is up"),
        pytest.param(WAITING, 1, WAITING, id="waiting for its first scrape"),
        pytest.param(UP, 0, UP, id="up, and nothing makes it worse"),
    ],
)
def test_what_series_up_add_to_pessimistic_targets(health: TargetHealth, value: float, lifted: TargetHealth) -> None:
    up = [Sample("up", {"job": "j", "instance": "h", "replica": "0"}, value), Sample("up", {"job": "j"}, 1)]
    assert lift([target(health)], up) == (target(lifted),)
