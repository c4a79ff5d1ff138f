"""The mode follows from the phases alone, and changes at most once in a window."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.facts import Mode, Phase
from controller.modes import compute_mode
from controller.settling import Settlement, settle

ON, EXPECTED, DOWN, UNKNOWN = Phase.ONLINE, Phase.EXPECTED_OFFLINE, Phase.UNEXPECTED_DOWN, Phase.UNKNOWN


@pytest.mark.parametrize(
    ("phases", "mode"),
    [
        pytest.param([ON, ON], Mode.MULTI_GPU, id="two online are multi_gpu"),
        pytest.param([ON, ON, DOWN], Mode.MULTI_GPU, id="two online are multi_gpu whatever else is down"),
        pytest.param([ON], Mode.SINGLE_GPU, id="a lone online card is single_gpu"),
        pytest.param([ON, UNKNOWN], Mode.SINGLE_GPU, id="an unknown card does not degrade"),
        pytest.param([ON, EXPECTED], Mode.DEGRADED_SINGLE_GPU, id="one online beside a planned absence is degraded"),
        pytest.param([ON, DOWN], Mode.DEGRADED_SINGLE_GPU, id="one online beside a failure is degraded"),
        pytest.param([EXPECTED, DOWN], Mode.INVENTORY_ONLY, id="none online is inventory_only"),
        pytest.param([UNKNOWN], Mode.INVENTORY_ONLY, id="an unknown card does not serve"),
        pytest.param([], Mode.INVENTORY_ONLY, id="no card at all is inventory_only"),
    ],
)
def test_mode(phases: list[Phase], mode: Mode) -> None:
    assert compute_mode(phases) is mode


@given(st.lists(st.sampled_from(Phase)).flatmap(lambda phases: st.tuples(st.just(phases), st.permutations(phases))))
def test_the_order_of_cards_does_not_matter(both: tuple[list[Phase], list[Phase]]) -> None:
    assert compute_mode(both[0]) is compute_mode(both[1])


@pytest.mark.parametrize("mode", [pytest.param(mode, id=f"start to {mode}") for mode in Mode])
def test_a_topology_without_a_mode_takes_its_first_one_at_once(mode: Mode) -> None:
    assert settle(None, mode, since_seconds=0, window_seconds=30) == Settlement(mode)


EDGES = [pytest.param(before, after, id=f"{before} to {after}") for before, after in permutations(Mode, 2)]


@pytest.mark.parametrize(("before", "after"), EDGES)
def test_within_the_window_a_change_is_pending(before: Mode, after: Mode) -> None:
    assert settle(before, after, since_seconds=29, window_seconds=30) == Settlement(before, after, 1)


@pytest.mark.parametrize(("before", "after"), EDGES)
def test_at_the_end_of_the_window_the_mode_changes(before: Mode, after: Mode) -> None:
    assert settle(before, after, since_seconds=30, window_seconds=30) == Settlement(after)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_change_that_is_no_longer_wanted_is_forgotten(mode: Mode) -> None:
    assert settle(mode, mode, since_seconds=5, window_seconds=30) == Settlement(mode)
