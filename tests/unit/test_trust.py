"""A fault of Prometheus does not look like a fault of the fleet, and a doubt does not last."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.facts import Observation, Sample, SourceFailure, Survey, Target, TargetHealth, Trust
from controller.names import Reason
from controller.trust import DOUBT_SECONDS, STALE_INTERVALS, STALE_SLACK_SECONDS, weigh

UP, DOWN, WAITING = TargetHealth.UP, TargetHealth.DOWN, TargetHealth.UNKNOWN
CARDS = {"card-1", "card-2"}
SCRAPE = 15.0


def target(host: str, health: TargetHealth, scrape: str = "", *, stale: bool = False) -> Target:
    labels = {"job": "any", "instance": f"{host}:9182"}
    return Target(f"http://{host}:9182/metrics", host, 9182, labels, health, "", scrape, SCRAPE, stale)


def survey(partial: str = "", **targets: TargetHealth) -> Survey:
    shown = tuple(target(host.replace("_", "-"), health) for host, health in targets.items())
    return Survey(shown, (), partial)


FINE = survey(card_1=UP, card_2=UP, router=UP, gateway=UP)


class Source:
    """A source that is asked again and again, as passes do."""

    def __init__(self) -> None:
        self.trust = Trust()

    def says(self, observation: Observation, at: float) -> Observation:
        believed, self.trust = weigh(observation, self.trust, CARDS, at)
        return believed

    def reason(self, observation: Observation, at: float) -> Reason | None:
        believed = self.says(observation, at)
        return believed.reason if isinstance(believed, SourceFailure) else None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(survey(card_1=DOWN, card_2=UP, router=UP, gateway=UP), None, id="a lone card can die"),
        pytest.param(
            survey(card_1=DOWN, card_2=UP, router=DOWN, gateway=DOWN), None, id="one card of two dies with all others"
        ),
        pytest.param(
            survey(card_1=DOWN, card_2=DOWN, router=UP, gateway=UP), None, id="all cards die, and nothing else"
        ),
        pytest.param(
            survey(card_1=DOWN, card_2=DOWN, router=DOWN, gateway=UP),
            Reason.SCRAPER_CUT_OFF,
            id="all cards die, and half of what has nothing to do with them",
        ),
        pytest.param(survey(card_1=UP, card_2=UP), None, id="half of the targets are gone"),
        pytest.param(survey(router=UP), Reason.TARGETS_VANISHED, id="most of the targets are gone"),
        pytest.param(survey(), Reason.TARGETS_VANISHED, id="all targets are gone"),
        pytest.param(
            survey(partial="one sidecar", card_1=UP, card_2=UP, router=UP),
            Reason.PARTIAL_ANSWER,
            id="an answer that says that it is not whole lacks a target",
        ),
        pytest.param(
            survey(partial="one sidecar", card_1=UP, card_2=UP, router=UP, gateway=UP),
            None,
            id="an answer that says that it is not whole lacks nothing that was there",
        ),
        pytest.param(
            survey(card_1=WAITING, card_2=WAITING, router=WAITING, gateway=WAITING), None, id="a restarted Prometheus"
        ),
    ],
)
def test_what_is_believed_after_a_good_answer(answer: Survey, reason: Reason | None) -> None:
    source = Source()
    assert source.says(FINE, 0) == FINE
    assert source.reason(answer, 5) is reason


def test_a_partial_answer_is_no_proof_that_series_are_gone() -> None:
    source = Source()
    series = Sample("gpu_temp_c", {"job": "any", "instance": "card-1:9182"}, 40)
    source.says(replace(FINE, samples=(series,)), 0)
    assert source.reason(replace(FINE, partial="isPartial is set"), 5) is Reason.PARTIAL_ANSWER
    assert source.reason(FINE, 10) is None, "a whole answer is"


@pytest.mark.parametrize("hosts", [1, 2, 1000])
def test_the_cut_is_noticed_for_any_number_of_cards_also_when_scrapes_show_it_one_by_one(hosts: int) -> None:
    names = [f"card-{number}" for number in range(hosts)]
    others = [f"other-{number}" for number in range(hosts)]
    source = Trust()
    everything = [*names, *others]
    for down in (0, len(everything) // 3, 2 * len(everything) // 3, len(everything)):
        shown = sorted(everything, key=lambda host: host[::-1])  # cards and others mixed
        answer = Survey(tuple(target(host, DOWN if at < down else UP) for at, host in enumerate(shown)), ())
        believed, source = weigh(answer, source, set(names), 5.0 * down / len(everything))
    assert isinstance(believed, SourceFailure)
    assert believed.reason is Reason.SCRAPER_CUT_OFF


def test_only_targets_that_were_up_lately_count_as_lost() -> None:
    source = Source()
    source.says(survey(card_1=UP, router=DOWN, gateway=DOWN, docs=UP), 0)
    assert source.reason(survey(card_1=DOWN, router=DOWN, gateway=DOWN, docs=UP), 5) is None


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(survey(card_1=DOWN, card_2=DOWN, router=DOWN, gateway=DOWN), id="everything down"),
        pytest.param(survey(router=UP), id="most targets gone"),
        pytest.param(survey(partial="one sidecar", card_1=UP, card_2=UP, router=UP), id="a partial answer"),
    ],
)
def test_a_doubt_that_lasts_is_given_up_for_good(answer: Survey) -> None:
    source = Source()
    source.says(FINE, 0)
    believed = [isinstance(source.says(answer, 5.0 * step), Survey) for step in range(1, 40)]
    given_up = believed.index(True)
    assert 5.0 * given_up == pytest.approx(DOUBT_SECONDS, abs=5)
    assert all(believed[given_up:])
    assert source.trust.recovered_at is None, "nothing has recovered: what was doubted is true"


def test_a_doubt_says_how_long_it_lasts() -> None:
    source = Source()
    source.says(FINE, 0)
    assert source.says(survey(router=UP), 5) == SourceFailure(
        Reason.TARGETS_VANISHED,
        "Prometheus knows only 1 of the 4 targets that it had a moment ago; "
        "believed after all once that has lasted 60 s",
    )


def test_an_answer_above_doubt_ends_the_doubt_and_counts_as_recovery() -> None:
    source = Source()
    source.says(FINE, 0)
    source.says(survey(), 5)
    assert source.says(FINE, 10) == FINE
    assert source.trust.recovered_at == 10
    assert source.reason(survey(), 65) is Reason.TARGETS_VANISHED, "a new doubt has its own time"


def test_a_failure_is_passed_on_and_its_end_counts_as_recovery() -> None:
    source = Source()
    failure = SourceFailure(Reason.TIMED_OUT, "slow")
    source.says(FINE, 0)
    assert source.says(failure, 5) == failure
    source.says(FINE, 10)
    assert source.trust.recovered_at == 10


def test_p06_a_target_that_is_not_scraped_any_more_is_stale_until_it_is_scraped_again() -> None:
    source = Source()
    allowed = STALE_INTERVALS * SCRAPE + STALE_SLACK_SECONDS

    def look(at: float, wedged_scrape: str) -> list[bool]:
        answer = Survey((target("card-1", UP, wedged_scrape), target("card-2", UP, f"scrape at {at}")), ())
        believed = source.says(answer, at)
        assert isinstance(believed, Survey)
        return [seen.stale for seen in believed.targets]

    assert look(0, "2020-01-01T00:00:00Z") == [False, False], "clocks of machines are not compared"
    assert look(allowed, "2020-01-01T00:00:00Z") == [False, False]
    assert look(allowed + 1, "2020-01-01T00:00:00Z") == [True, False]
    assert look(allowed + 2, "2020-01-01T00:01:00Z") == [False, False]


def test_p06_a_prometheus_that_scrapes_nothing_any_more_is_a_fault_of_the_source() -> None:
    source = Source()
    wedged = Survey((target("card-1", UP, "long ago"), target("card-2", DOWN, "long ago")), ())
    assert source.reason(wedged, 0) is None
    assert source.reason(wedged, 100) is Reason.SCRAPES_STOPPED
    believed = source.says(wedged, 100 + DOUBT_SECONDS)
    assert isinstance(believed, Survey)
    assert all(seen.stale for seen in believed.targets), "each card is then judged by what is old"


ANSWERS = st.one_of(
    st.builds(
        Survey,
        st.lists(
            st.builds(
                target, st.sampled_from(["card-1", "card-2", "x", "y"]), st.sampled_from(TargetHealth), st.text("ab")
            ),
            unique_by=lambda one: one.host,
        ).map(tuple),
        st.just(()),
        st.sampled_from(["", "a part"]),
    ),
    st.just(SourceFailure(Reason.TIMED_OUT, "slow")),
)


@given(st.lists(st.tuples(ANSWERS, st.floats(0, 100))))
def test_valid_answers_are_never_refused_for_longer_than_a_doubt_may_last(
    steps: list[tuple[Observation, float]],
) -> None:
    source, now, refused_since = Source(), 0.0, None
    for answer, wait in steps:
        now += wait
        believed = source.says(answer, now)
        if isinstance(answer, SourceFailure) or isinstance(believed, Survey):
            refused_since = None
        else:
            refused_since = now if refused_since is None else refused_since
            assert now - refused_since < DOUBT_SECONDS
