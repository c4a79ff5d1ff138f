"""Profiles are data: the built-in ones are sound and documented, and a fault in a person's own is told in one line."""

from pathlib import Path

import pytest

from controller import profiles
from controller.__main__ import main
from controller.exporters import Profile, Source
from controller.profiles import ProfileError, built_in, load

FIELDS = (
    ("gpu_temp_c", "Temp"),
    ("gpu_load_pct", "Load"),
    ("gpu_power_w", "Power"),
    ("gpu_fan_rpm", "Fan rpm"),
    ("gpu_fan_pct", "Fan %"),
    ("gpu_memory_used_gb", "Used"),
    ("gpu_memory_total_gb", "Total"),
)
OWN = """\
- name: mine
  readings:
    gpuTempC: my_temp
    gpuPowerW: {series: my_power, scale: milli, missing: [-1]}
"""


def test_a_few_lines_make_a_profile_that_comes_first(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    mine = Profile(
        name="mine",
        title="mine",
        readings={
            "gpu_temp_c": (Source(series="my_temp"),),
            "gpu_power_w": (Source(series="my_power", scale=0.001, missing=(-1,)),),
        },
        fingerprint=("my_temp", "my_power"),
    )
    assert load(tmp_path / "own.yaml") == (mine, *built_in())


def test_a_profile_takes_the_place_of_a_built_in_one_when_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("[{name: lab, replaces: [lab], readings: {gpuTempC: gpu_temp_c}}]")
    first, *others = load(tmp_path / "own.yaml")
    assert first.readings == {"gpu_temp_c": (Source(series="gpu_temp_c"),)}
    assert others == [profile for profile in built_in() if profile.name != "lab"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("a: [", "this is not YAML: ", id="no YAML"),
        pytest.param("name: mine", "a list of profiles is needed", id="no list"),
        pytest.param("[7]", "profile number 0, counted from 0: ", id="no profile"),
        pytest.param("[{name: mine}]", "profile mine: readings: Field required", id="no readings"),
        pytest.param(
            "[{name: mine, readings: {gpuTemp: a}}]",
            "profile mine: readings.gpuTemp: Input should be 'gpuTempC', 'gpuLoadPct', ",
            id="an unknown reading",
        ),
        pytest.param(
            "[{name: mine, readings: {gpuTempC: {series: a, scale: mili}}}]",
            "profile mine: readings.gpuTempC.0.scale",
            id="an unknown scale",
        ),
        pytest.param(
            "[{name: mine, readings: {gpuTempC: a}, fingerprints: [a]}]",
            "profile mine: fingerprints: Unexpected keyword argument",
            id="an unknown field",
        ),
        pytest.param(
            "[{name: mine, readings: {gpuTempC: a}, identity: {bus: [a]}}]",
            "profile mine: identity.bus: Unexpected keyword argument",
            id="an unknown label of identity",
        ),
        pytest.param(
            '[{name: mine, readings: {gpuTempC: "a.*"}}]',
            "profile mine: 'a.*' is not a series name: letters, digits, _ and : alone",
            id="a pattern for a series",
        ),
        pytest.param(
            "[{name: lab, readings: {gpuTempC: a}}]",
            "profile lab: name: a built-in profile has it; say `replaces: [lab]` if that is meant",
            id="the name of a built-in profile",
        ),
        pytest.param(
            "[{name: mine, readings: {gpuTempC: DCGM_FI_DEV_GPU_TEMP}}]",
            "profile mine: readings: DCGM_FI_DEV_GPU_TEMP is a series of the built-in dcgm-exporter; "
            "say `replaces: [dcgm-exporter]` if that is meant",
            id="a series of a built-in profile",
        ),
        pytest.param(
            "[{name: mine, replaces: [dcgm], readings: {gpuTempC: a}}]",
            "profile mine: replaces: dcgm is no built-in profile",
            id="the replacement of nothing",
        ),
        pytest.param(OWN + OWN, "profile mine: name: it is declared twice", id="two of one name"),
    ],
)
def test_a_fault_is_told_with_file_profile_and_field(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(ProfileError) as error:
        load(file)
    assert str(error.value).startswith(f"{file}: {fault}")
    assert "\n" not in str(error.value)


def test_a_fault_in_the_file_is_a_fault_of_the_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("[{name: mine, replaces: [dcgm], readings: {gpuTempC: a}}]")
    assert main(["run", "--prometheus-url=http://h", f"--profiles-file={file}"]) == 2
    assert capsys.readouterr().err == (
        f"gpu-topology: GPU_TOPOLOGY_PROFILES_FILE (--profiles-file): {file}: "
        "profile mine: replaces: dcgm is no built-in profile\n"
    )


def test_the_query_for_all_series_fits_into_a_url() -> None:
    assert len("|".join(profiles.series(built_in()))) < 6000


def test_the_docs_show_every_profile() -> None:
    shown = Path("docs/exporters.md").read_text()
    assert table() in shown, f"docs/exporters.md needs this table:\n\n{table()}"


def table() -> str:
    columns = " | ".join(column for _, column in FIELDS)
    lines = [f"| exporter (profile) | {columns} | what to know |", "|---" * (len(FIELDS) + 2) + "|"]
    for profile in built_in():
        cells = (" <br> ".join(map(spelled, profile.readings.get(field, ()))) or "—" for field, _ in FIELDS)
        lines.append(f"| {profile.title} (`{profile.name}`) | {' | '.join(cells)} | {profile.note} |")
    return "\n".join(lines)


def spelled(source: Source) -> str:
    labels = ",".join(f'{label}="{value}"' for label, value in source.where.items())
    name = f"`{source.series}{{{labels}}}`" if labels else f"`{source.series}`"
    scale = "" if source.scale == 1 else f" ({source.scale:.4g})"
    return " + ".join([name, *(f"`{one}`" for one in source.plus)]) + scale
