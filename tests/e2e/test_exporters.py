"""Every exporter as it is in the field: served, scraped by a real Prometheus, and read as the operator reads it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from controller import matching, profiles, readings
from controller.exporters import Profile
from controller.facts import CardSelector, GpuNodeSpec, Readings, Survey, TargetHealth
from controller.prometheus import Prometheus as Source
from lab.exporters import Exporter
from lab.processes import wait_for
from lab.prometheus import Prometheus

NETWORK = "127.1.10."
PORT = 9183
PAGES = {page.stem: page for page in sorted(Path("tests/samples/metrics").glob("*.prom"))}
HOSTS = {name: f"{NETWORK}{number}" for number, name in enumerate(PAGES, 100)}

NO_CARD = "no card"
Card = tuple[Mapping[str, str], Readings | str]
"""Which series of the target are the card's, and what they say, if there are any."""


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survey]:
    """Serve all pages at once, and return what a real Prometheus shows of them."""
    own = tmp_path_factory.mktemp("profiles") / "profiles.yaml"
    own.write_text(example_of_the_docs())
    prometheus = Prometheus(tmp_path_factory.mktemp("exporters") / "prometheus", (f"{NETWORK}40", 9090))
    with ExitStack() as last_first:
        for name, page in PAGES.items():
            exporter = Exporter(HOSTS[name], PORT, page.read_text)
            last_first.callback(exporter.close)
        prometheus.watch({"gpu": [(host, PORT) for host in HOSTS.values()]})
        last_first.callback(prometheus.stop)
        prometheus.start()

        async def ask() -> tuple[set[tuple[str, str]], Survey] | None:
            async with Source(prometheus.url, 5, profiles.series(profiles.load(own))) as source:
                answer = await source.survey()
            assert isinstance(answer, Survey), answer
            scrapes = {
                (target.scrape_url, target.last_scrape)
                for target in answer.targets
                if target.health is not TargetHealth.UNKNOWN
            }
            fresh = scrapes if len(scrapes) == len(PAGES) and scrapes.isdisjoint(before) else set()
            return (fresh, answer) if fresh else None

        before: set[tuple[str, str]] = set()
        before, _ = wait_for("all are scraped", lambda: asyncio.run(ask()), 20)
        # A target is up some milliseconds before the series of that scrape can be queried: the next one is waited for.
        _, again = wait_for("all are scraped again", lambda: asyncio.run(ask()), 20)
        yield again


RTX_3090 = Readings(gpu_temp_c=57, gpu_load_pct=93, gpu_power_w=288.43, gpu_fan_pct=62, gpu_memory_used_gb=20.51)
RX_7900_XT = Readings(gpu_temp_c=58, gpu_load_pct=96, gpu_power_w=187, gpu_memory_used_gb=17.47)
RX_9070 = Readings(gpu_temp_c=49, gpu_load_pct=81, gpu_power_w=168, gpu_fan_rpm=1187, gpu_memory_used_gb=12.3)

EXPECTED: Mapping[str, Sequence[Card]] = {
    # Of the placeholder's series the lab's profile knows one; a profile of one's own reads them all (below).
    "HYPOTHETICAL_custom_9183": [({}, Readings(gpu_fan_rpm=1187))],
    "all_smi": [({"uuid": "GPU-0000:03:00.0"}, RX_7900_XT)],
    "amd_device_metrics_exporter_mi300x_prefixed": [
        ({"gpu_id": "3"}, Readings(gpu_temp_c=78, gpu_load_pct=88, gpu_power_w=614, gpu_memory_used_gb=167))
    ],
    "amd_device_metrics_exporter_old_zeros": [({}, Readings(gpu_memory_used_gb=0.03))],
    # It shows no temperature but that of the hot spot.
    "amd_device_metrics_exporter_radeon": [({"gpu_id": "0"}, replace(RX_7900_XT, gpu_temp_c=71))],
    "amd_smi_exporter_deprecated": [
        ({}, Readings(gpu_temp_c=44, gpu_load_pct=37, gpu_power_w=93)),
        ({"gpu_power": "1"}, Readings()),
    ],
    "amdgpu_exporter_martinemrich": [({"pci": "0000:03:00.0"}, RX_7900_XT)],
    "dcgm_current": [
        ({"gpu": "0"}, replace(RTX_3090, gpu_fan_pct=None)),
        ({"gpu": "1"}, Readings(gpu_temp_c=34, gpu_load_pct=0, gpu_power_w=21.91, gpu_memory_used_gb=0.01)),
        ({"gpu": "2"}, NO_CARD),
    ],
    "dcgm_custom_csv_fan_total": [({}, Readings(gpu_temp_c=57, gpu_fan_pct=62))],
    "dcgm_legacy_blank_sentinels": [({}, Readings(gpu_temp_c=41))],
    "dcgm_mig_k8s": [({"gpu": "0"}, Readings(gpu_temp_c=49, gpu_load_pct=41.39, gpu_memory_used_gb=3.66))],
    "dcgm_old_namespace": [({}, Readings(gpu_temp_c=54, gpu_load_pct=12, gpu_power_w=30.98, gpu_memory_used_gb=0.99))],
    "dcgm_shared_pods": [({}, Readings(gpu_load_pct=93))],
    "gpustack_worker": [({"gpu_index": "0"}, replace(RTX_3090, gpu_power_w=288, gpu_fan_pct=None))],
    "hardware_exporter_windows": [({}, replace(RX_9070, gpu_fan_rpm=None))],
    "intel_gpu_exporter_onedr0p": [({}, Readings(gpu_load_pct=12.5, gpu_power_w=4.2))],
    "intel_xpum_v1": [({}, Readings(gpu_temp_c=44, gpu_load_pct=37, gpu_power_w=61.2, gpu_memory_used_gb=3))],
    "intel_xpumd_v2_otel": [
        # The model stands in hw_gpu_info alone, and serves to pick the card all the same.
        (
            {"hw_model": "Intel(R) Arc(TM) Pro B60 Graphics"},
            Readings(gpu_temp_c=52, gpu_load_pct=82, gpu_power_w=121.4, gpu_memory_used_gb=15),
        )
    ],
    "librehardwaremonitor_builtin": [({"hardwareId": "/gpu-amd/0"}, RX_9070)],  # Prometheus 3 reads its label names
    "macmon_apple": [
        (
            {},
            Readings(gpu_temp_c=46.1, gpu_load_pct=71, gpu_power_w=11.9, gpu_fan_rpm=1710, gpu_memory_used_gb=27.05),
        )
    ],
    # A card that sleeps: it is there, and nothing is known of it but that it does nothing.
    "node_exporter_drm_unreadable_zero": [({}, Readings(gpu_load_pct=0))],
    "node_exporter_hwmon_drm_amdgpu": [
        ({"chip": "0000:02:00_0_0000:03:00_0"}, Readings(gpu_temp_c=46, gpu_power_w=143, gpu_fan_rpm=1189)),
        ({"chip": "0000:00:08_1_0000:0d:00_0"}, Readings(gpu_temp_c=41, gpu_power_w=31.17)),
        ({"card": "card1"}, Readings(gpu_load_pct=78, gpu_memory_used_gb=12.3)),
        ({"chip": "nvme_nvme0"}, NO_CARD),
    ],
    "nvidia_gpu_exporter": [({"index": "0"}, RTX_3090)],
    "nvidia_gpu_exporter_collect_failed": [({}, NO_CARD)],
    "nvidia_gpu_exporter_datacenter_mig": [({}, Readings(gpu_temp_c=42, gpu_power_w=71.15, gpu_memory_used_gb=0.06))],
    "nvidia_gpu_prometheus_exporter_mindprince": [
        (
            {},
            Readings(gpu_temp_c=61, gpu_load_pct=88, gpu_power_w=214.38, gpu_fan_pct=45, gpu_memory_used_gb=7),
        )
    ],
    "nvtop_exporter_spotdemo4": [({}, Readings(gpu_temp_c=48, gpu_load_pct=41, gpu_power_w=96, gpu_memory_used_gb=5))],
    "nvtop_exporter_virtuos": [
        (
            {},
            Readings(gpu_temp_c=47, gpu_load_pct=64, gpu_power_w=58, gpu_fan_pct=0, gpu_memory_used_gb=10.24),
        )
    ],
    "ohmgraphite_amd": [
        (
            {"hw_instance": "0"},
            replace(RX_7900_XT, gpu_power_w=283, gpu_fan_rpm=1324, gpu_fan_pct=38, gpu_memory_used_gb=16.5),
        ),
        ({"hw_instance": "1"}, NO_CARD),  # an integrated GPU that shows no sensor of a card
    ],
    "rocm_smi_exporter_raykrueger": [({}, replace(RX_7900_XT, gpu_fan_rpm=1324, gpu_fan_pct=38))],
    "telegraf_amd_rocm_smi": [({}, replace(RX_7900_XT, gpu_power_w=None, gpu_fan_pct=38))],
    "telegraf_nvidia_smi": [({"index": "0"}, RTX_3090)],
    "windows_exporter_gpu": [
        ({"name": "AMD Radeon RX 7900 XT"}, Readings(gpu_memory_used_gb=16.5)),
        ({"name": "AMD Radeon(TM) Graphics"}, Readings(gpu_memory_used_gb=0.08)),
    ],
    "windows_exporter_no_gpu_collector": [({}, NO_CARD)],
}


def test_every_page_has_its_expected_readings() -> None:
    assert {*EXPECTED} == {*PAGES}


@pytest.mark.parametrize("page", EXPECTED)
def test_an_exporter_is_read(survey: Survey, page: str) -> None:
    expected = EXPECTED[page]
    assert [(labels, seen(survey, page, labels, profiles.built_in())) for labels, _ in expected] == expected


def test_a_profile_of_ones_own_reads_a_home_made_exporter(survey: Survey, tmp_path: Path) -> None:
    file = tmp_path / "profiles.yaml"
    file.write_text(example_of_the_docs())
    assert seen(survey, "HYPOTHETICAL_custom_9183", {"gpu": "0"}, profiles.load(file)) == RX_9070


def example_of_the_docs() -> str:
    """Return the profile that the docs show, the first YAML that stands there."""
    return Path("docs/exporters.md").read_text().partition("```yaml\n")[2].partition("```")[0]


def seen(survey: Survey, page: str, labels: Mapping[str, str], known: tuple[Profile, ...]) -> Readings | str:
    """Return what the operator makes of a card's series on a page."""
    recognised = replace(survey, samples=readings.recognise(survey.samples, known))
    spec = GpuNodeSpec(host=HOSTS[page], vram_gb=1, card=CardSelector(match_labels=labels))
    index = matching.Index(recognised)
    targets = index.targets(spec, (PORT,))
    assert [target.health for target in targets] == [TargetHealth.UP]
    samples = index.samples(targets, spec.card)
    return readings.read(samples, known) if samples else NO_CARD
