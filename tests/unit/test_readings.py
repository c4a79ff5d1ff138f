"""Readings come from the series of the profiles, in our units; what cannot be true is not a reading."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.facts import Readings, Sample
from controller.profiles import built_in
from controller.readings import BOUNDS, moved, read, recognise


@pytest.mark.parametrize(
    ("series", "readings"),
    [
        pytest.param([], Readings(), id="no series says nothing"),
        pytest.param(
            [("gpu_temp_c", 32), ("gpu_load_pct", 0), ("gpu_power_w", 49), ("gpu_fan_rpm", 950)],
            Readings(gpu_temp_c=32, gpu_load_pct=0, gpu_power_w=49, gpu_fan_rpm=950),
            id="the lab's exporter is read as it stands",
        ),
        pytest.param(
            [
                ("DCGM_FI_DEV_GPU_TEMP", 60),
                ("DCGM_FI_DEV_GPU_UTIL", 99),
                ("DCGM_FI_DEV_POWER_USAGE", 250.126),
                ("DCGM_FI_DEV_FB_USED", 2048),
            ],
            Readings(gpu_temp_c=60, gpu_load_pct=99, gpu_power_w=250.13, gpu_memory_used_gb=2),
            id="dcgm's MiB become GiB, and two decimals are enough",
        ),
        pytest.param([("gpu_temp_c", 40), ("gpu_temp_c", 70)], Readings(gpu_temp_c=70), id="of several the highest"),
        pytest.param([("gpu_temp_c", -5)], Readings(gpu_temp_c=-5), id="a cold card is possible"),
        pytest.param([("gpu_load_pct", 0), ("gpu_load_pct", -1)], Readings(gpu_load_pct=0), id="-1 is no load"),
        pytest.param([("gpu_fan_rpm", -1)], Readings(), id="-1 alone leaves the field empty"),
        pytest.param([("gpu_power_w", 2.0**63)], Readings(), id="2^63 is no power"),
        pytest.param([("gpu_temp_c", math.nan), ("gpu_temp_c", 30)], Readings(gpu_temp_c=30), id="NaN hides nothing"),
        pytest.param([("gpu_temp_c", math.inf)], Readings(), id="infinity is no temperature"),
        pytest.param([("gpu_temp_c", 150)], Readings(gpu_temp_c=150), id="the bound itself is believed"),
    ],
)
def test_readings(series: list[tuple[str, float]], readings: Readings) -> None:
    assert read(recognise([Sample(name, {}, value) for name, value in series], built_in()), built_in()) == readings


SERIES = [(name, sorted(profile.needs)) for profile in built_in() for name in [profile.name]]
LABELS = st.dictionaries(
    st.sampled_from(["sensor", "gpu", "uuid", "chip", "chip_name", "location", "statistic"]),
    st.sampled_from(["", "0", "GPU Core", "GPU Memory Used", "amdgpu", "temp1", "gpu", "max"]),
)
VALUES = st.floats() | st.sampled_from([-1.0, 0.0, 2.0**31, 2.0**63, 140737488355330.0])
ANY_SAMPLES = st.sampled_from(SERIES).flatmap(
    lambda one: st.lists(st.builds(Sample, st.sampled_from(one[1]), LABELS, VALUES), max_size=8)
)


@given(ANY_SAMPLES.flatmap(lambda samples: st.tuples(st.just(samples), st.permutations(samples))))
def test_whatever_exporters_show_a_reading_is_plausible_and_the_order_does_not_matter(
    both: tuple[list[Sample], list[Sample]],
) -> None:
    first, second = (read(recognise(samples, built_in()), built_in()) for samples in both)

    assert first == second
    for field, (low, high, _) in BOUNDS.items():
        value = getattr(first, field)
        assert value is None or low <= value <= high, field


@pytest.mark.parametrize(
    ("before", "after", "worth"),
    [
        pytest.param(Readings(gpu_temp_c=40), Readings(gpu_temp_c=41), False, id="a degree is inside the deadband"),
        pytest.param(Readings(gpu_temp_c=40), Readings(gpu_temp_c=41.5), True, id="more than a degree is worth it"),
        pytest.param(Readings(gpu_load_pct=50), Readings(gpu_load_pct=44), True, id="so is a fall"),
        pytest.param(Readings(), Readings(gpu_temp_c=0), True, id="a reading that comes is worth it"),
        pytest.param(Readings(gpu_temp_c=40), Readings(), True, id="a reading that goes is worth it"),
        pytest.param(None, Readings(gpu_temp_c=40), True, id="so is the first reading of all"),
        pytest.param(None, Readings(), False, id="none before and none after is nothing to write"),
    ],
)
def test_what_is_worth_a_write(before: Readings | None, after: Readings, worth: bool) -> None:  # noqa: FBT001 - a column
    assert moved(before, after) is worth
