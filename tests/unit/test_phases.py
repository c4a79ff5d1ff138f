"""Every cell of the table of phases."""

from datetime import UTC, datetime

import pytest

from controller.facts import GpuNodeSpec, GpuNodeStatus, Health, Phase, Target, TargetHealth
from controller.names import Reason
from controller.phases import Evidence, Verdict, hold, judge

UP, DOWN, WAITING = TargetHealth.UP, TargetHealth.DOWN, TargetHealth.UNKNOWN
OLD = None
"""A target that was up when it was scraped, but is not scraped any more."""


def last(phase: Phase, health: Health) -> GpuNodeStatus:
    return GpuNodeStatus(
        observed_generation=1,
        phase=phase,
        health=health,
        reason=Reason.TARGETS_UP,
        message="",
        last_transition_time=datetime(2026, 1, 1, tzinfo=UTC),
    )


ONLINE = last(Phase.ONLINE, Health.ONLINE)
FAILED = last(Phase.UNEXPECTED_DOWN, Health.OFFLINE)


def seen(verdict: Verdict) -> tuple[Health, Phase, Reason]:
    return verdict.health, verdict.phase, verdict.reason


@pytest.mark.parametrize(
    ("targets", "series", "missing", "before", "health", "phase", "expected_phase", "reason"),
    [
        pytest.param([UP, UP], True, 0, None, Health.ONLINE, Phase.ONLINE, Phase.ONLINE, Reason.TARGETS_UP,
                     id="all targets up with series is online, planned or not"),
        pytest.param([UP, DOWN], True, 0, ONLINE, Health.OFFLINE, Phase.UNEXPECTED_DOWN, Phase.EXPECTED_OFFLINE,
                     Reason.TARGET_DOWN, id="a target down is offline"),
        pytest.param([UP], False, 0, ONLINE, Health.OFFLINE, Phase.UNEXPECTED_DOWN, Phase.EXPECTED_OFFLINE,
                     Reason.METRICS_MISSING, id="targets up without series is offline"),
        pytest.param([], False, 0, None, Health.UNKNOWN, Phase.UNKNOWN, Phase.EXPECTED_OFFLINE,
                     Reason.TARGET_MISSING, id="no target is unknown, or planned"),
        pytest.param([], False, 59, ONLINE, Health.UNKNOWN, Phase.ONLINE, Phase.ONLINE, Reason.TARGET_MISSING,
                     id="an online card keeps its phase for a while without target"),
        pytest.param([], False, 60, ONLINE, Health.UNKNOWN, Phase.UNKNOWN, Phase.EXPECTED_OFFLINE,
                     Reason.TARGET_MISSING, id="after that it is unknown, or planned"),
        pytest.param([OLD, UP], True, 0, ONLINE, Health.UNKNOWN, Phase.UNKNOWN, Phase.EXPECTED_OFFLINE,
                     Reason.TARGET_STALE, id="a target not scraped any more is unknown, or planned"),
        pytest.param([OLD, DOWN], False, 0, ONLINE, Health.OFFLINE, Phase.UNEXPECTED_DOWN, Phase.EXPECTED_OFFLINE,
                     Reason.TARGET_DOWN, id="a target down is offline also beside an old one"),
        pytest.param([WAITING], False, 0, ONLINE, Health.ONLINE, Phase.ONLINE, Phase.ONLINE, Reason.NOT_SCRAPED_YET,
                     id="a target not scraped yet leaves the last judgement"),
        pytest.param([WAITING], False, 0, None, Health.UNKNOWN, Phase.UNKNOWN, Phase.EXPECTED_OFFLINE,
                     Reason.NOT_SCRAPED_YET, id="without a last judgement it is unknown, or planned"),
    ],
)  # fmt: skip
def test_phase(  # noqa: PLR0913, PLR0917 - the columns of the table
    targets: list[TargetHealth | None],
    series: bool,  # noqa: FBT001 - a column
    missing: float,
    before: GpuNodeStatus | None,
    health: Health,
    phase: Phase,
    expected_phase: Phase,
    reason: Reason,
) -> None:
    evidence = Evidence(
        targets=[
            Target(f"http://h:{n}/metrics", "h", n, {}, state or UP, "", stale=state is OLD)
            for n, state in enumerate(targets)
        ],
        has_series=series,
        missing_seconds=missing,
    )
    plain, planned = GpuNodeSpec(host="h", vram_gb=1), GpuNodeSpec(host="h", vram_gb=1, expected_offline=True)
    assert seen(judge(plain, before, evidence)) == (health, phase, reason)
    assert seen(judge(planned, before, evidence)) == (health, expected_phase, reason)


@pytest.mark.parametrize(
    ("before", "expected_offline", "phase"),
    [
        pytest.param(ONLINE, False, Phase.ONLINE, id="online stays"),
        pytest.param(FAILED, False, Phase.UNEXPECTED_DOWN, id="down stays"),
        pytest.param(FAILED, True, Phase.EXPECTED_OFFLINE, id="down follows a flag that is set now"),
        pytest.param(None, True, Phase.UNKNOWN, id="a card never judged is unknown, planned or not"),
    ],
)
def test_without_prometheus_the_last_judgement_holds(
    before: GpuNodeStatus | None,
    expected_offline: bool,  # noqa: FBT001 - a column
    phase: Phase,
) -> None:
    spec = GpuNodeSpec(host="h", vram_gb=1, expected_offline=expected_offline)
    verdict = hold(spec, before, Reason.SOURCE_UNAVAILABLE, "gone")
    health = before.health if before else Health.UNKNOWN
    assert verdict == Verdict(health, phase, Reason.SOURCE_UNAVAILABLE, "gone", current=False)


PLANNED = last(Phase.EXPECTED_OFFLINE, Health.OFFLINE)
UNJUDGED = last(Phase.UNKNOWN, Health.UNKNOWN)


@pytest.mark.parametrize("reason", [Reason.NOT_SCRAPED_YET, Reason.SOURCE_UNAVAILABLE])
@pytest.mark.parametrize(
    ("before", "expected_offline", "phase"),
    [
        pytest.param(ONLINE, False, Phase.ONLINE, id="an online card stays online"),
        pytest.param(ONLINE, True, Phase.ONLINE, id="an online card stays online where absence is planned"),
        pytest.param(FAILED, False, Phase.UNEXPECTED_DOWN, id="a failed card stays down"),
        pytest.param(FAILED, True, Phase.EXPECTED_OFFLINE, id="a failed card follows a flag that is set now"),
        pytest.param(PLANNED, True, Phase.EXPECTED_OFFLINE, id="a planned absence stays planned"),
        pytest.param(PLANNED, False, Phase.UNEXPECTED_DOWN, id="a planned absence follows a flag that is gone now"),
        pytest.param(UNJUDGED, False, Phase.UNKNOWN, id="an unknown card stays unknown"),
    ],
)
def test_without_current_data_health_stays_and_the_phase_follows_the_flag(
    before: GpuNodeStatus,
    expected_offline: bool,  # noqa: FBT001 - a column
    phase: Phase,
    reason: Reason,
) -> None:
    spec = GpuNodeSpec(host="h", vram_gb=1, expected_offline=expected_offline)
    assert hold(spec, before, reason, "why") == Verdict(before.health, phase, reason, "why", current=False)


@pytest.mark.parametrize(
    ("states", "series", "verdict"),
    [
        pytest.param(
            [UP], True, Verdict(Health.ONLINE, Phase.ONLINE, Reason.TARGETS_UP, "The target is up"),
            id="one target up",
        ),
        pytest.param(
            [WAITING, DOWN, UP], True,
            Verdict(
                Health.OFFLINE, Phase.UNEXPECTED_DOWN, Reason.TARGET_DOWN,
                "1 of 3 targets is down: http://h:1/metrics: refused",
            ),
            id="a target down outweighs one that is not scraped yet, and is named with its error",
        ),
        pytest.param(
            [DOWN, DOWN], False,
            Verdict(
                Health.OFFLINE, Phase.UNEXPECTED_DOWN, Reason.TARGET_DOWN,
                "All 2 targets are down: http://h:0/metrics: refused",
            ),
            id="a target down outweighs missing series",
        ),
        pytest.param(
            [UP, WAITING], False,
            Verdict(
                Health.UNKNOWN, Phase.UNKNOWN, Reason.NOT_SCRAPED_YET,
                "1 of 2 targets is not scraped yet: http://h:1/metrics", current=False,
            ),
            id="a target not scraped yet outweighs missing series",
        ),
    ],
)  # fmt: skip
def test_the_first_row_that_fits_counts(
    states: list[TargetHealth],
    series: bool,  # noqa: FBT001 - a column
    verdict: Verdict,
) -> None:
    targets = [Target(f"http://h:{n}/metrics", "h", n, {}, state, "refused") for n, state in enumerate(states)]
    assert judge(GpuNodeSpec(host="h", vram_gb=1), None, Evidence(targets=targets, has_series=series)) == verdict


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(FAILED, id="a failed card has no time of grace"),
        pytest.param(PLANNED, id="nor has one that was off as planned"),
        pytest.param(UNJUDGED, id="nor has one that was unknown"),
    ],
)
def test_only_a_card_that_was_online_keeps_its_phase_without_a_target(before: GpuNodeStatus) -> None:
    verdict = judge(GpuNodeSpec(host="h", vram_gb=1), before, Evidence(targets=[], has_series=False))
    assert seen(verdict) == (Health.UNKNOWN, Phase.UNKNOWN, Reason.TARGET_MISSING)
