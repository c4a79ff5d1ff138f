"""Every exporter as it is in the field: served, scraped by a real Prometheus, and read as the operator reads it."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from controller import discovery, matching, profiles, readings
from controller.access import SourceConfig
from controller.exporters import Profile
from controller.facts import CardSelector, GpuNode, GpuNodeSpec, Policy, Readings, Survey, TargetHealth
from controller.prometheus import Prometheus as Source
from lab.exporters import Exporter
from lab.processes import wait_for
from lab.prometheus import Prometheus
from tests.conftest import Cluster

NETWORK = "127.1.10."
PORT = 9183
PAGES = {page.stem: page for page in sorted(Path("tests/samples/metrics").glob("*.prom"))}
HOSTS = {name: f"{NETWORK}{number}" for number, name in enumerate(PAGES, 100)}

NO_CARD = "no card"
Card = tuple[Mapping[str, str], Readings | str]
"""Which series of the target are the card's, and what they say, if there are any."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Serve all pages at once to a real Prometheus."""
    prometheus = Prometheus(tmp_path_factory.mktemp("exporters") / "prometheus", (f"{NETWORK}40", 9090))
    with ExitStack() as last_first:
        for name, page in PAGES.items():
            last_first.callback(Exporter(HOSTS[name], PORT, page.read_text).close)
        prometheus.watch({"gpu": [(host, PORT) for host in HOSTS.values()]})
        last_first.callback(prometheus.stop)
        yield prometheus.start()


@pytest.fixture(scope="module")
def survey(prometheus: Prometheus, tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Return what Prometheus shows of all pages, also of the series of the docs' example."""
    own = tmp_path_factory.mktemp("profiles") / "profiles.yaml"
    own.write_text(example_of_the_docs())

    config = SourceConfig(targets=(prometheus.url,), query=(prometheus.url,))

    async def ask() -> tuple[set[tuple[str, str]], Survey] | None:
        async with Source(config, 5, profiles.series(profiles.load(own))) as source:
            answer = await source.survey()
        assert isinstance(answer, Survey), answer
        scrapes = {
            (target.scrape_url, target.last_scrape)
            for target in answer.targets
            if target.health is not TargetHealth.UNKNOWN
        }
        fresh = len(scrapes) == len(PAGES) and scrapes.isdisjoint(before)
        return (scrapes, answer) if fresh else None

    before: set[tuple[str, str]] = set()
    before, _ = wait_for("all are scraped", lambda: asyncio.run(ask()), 20)
    # A target is up some milliseconds before the series of that scrape can be queried: the next one is waited for.
    _, again = wait_for("all are scraped again", lambda: asyncio.run(ask()), 20)
    return again


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
    node = GpuNode(name=page, uid=page, generation=1, spec=spec)
    found = matching.look([node], recognised, Policy(profiles=known, target_ports=(PORT,)))[page]
    assert [target.health for target in found.match.targets] == [TargetHealth.UP]
    return readings.read(found.samples, known) if found.samples else NO_CARD


UNKNOWN = 1
"""What stands for a size that no exporter tells, under a comment that says so."""
DISCOVERED: Sequence[tuple[str, str | None, int, Mapping[str, str] | None]] = [
    ("HYPOTHETICAL_custom_9183", "AMD Radeon RX 9070", UNKNOWN, None),
    ("all_smi", "AMD Radeon RX 7900 XT", 20, None),
    ("amd_device_metrics_exporter_mi300x_prefixed", "AMD INSTINCT MI300X", 192, None),
    ("amd_device_metrics_exporter_old_zeros", None, UNKNOWN, None),
    ("amd_device_metrics_exporter_radeon", "Navi 31 [Radeon RX 7900 XT]", 20, None),
    # No label is in all series of one of these cards.
    ("amd_smi_exporter_deprecated", "instinctmi210", UNKNOWN, None),
    ("amd_smi_exporter_deprecated", "instinctmi210", UNKNOWN, None),
    ("amdgpu_exporter_martinemrich", "AMD Radeon RX 7900 XT", 20, None),
    ("dcgm_current", "NVIDIA GeForce RTX 3090", 24, {"UUID": "GPU-1f0c9d2a-7b34-4e51-9a60-0c5d1e2f3a4b"}),
    ("dcgm_current", "NVIDIA GeForce RTX 3090", 24, {"UUID": "GPU-9e8d7c6b-5a49-4382-b170-6f5e4d3c2b1a"}),
    ("dcgm_custom_csv_fan_total", "NVIDIA GeForce RTX 3090", 24, None),
    ("dcgm_legacy_blank_sentinels", None, UNKNOWN, None),
    ("dcgm_mig_k8s", "NVIDIA A30", UNKNOWN, None),
    ("dcgm_old_namespace", None, 16, None),
    ("dcgm_shared_pods", "NVIDIA GeForce RTX 3090", UNKNOWN, None),
    ("gpustack_worker", "NVIDIA GeForce RTX 3090", 24, None),
    ("hardware_exporter_windows", "AMD Radeon RX 9070", UNKNOWN, None),
    ("intel_gpu_exporter_onedr0p", None, UNKNOWN, None),
    ("intel_xpum_v1", "Intel(R) Data Center GPU Flex 170", UNKNOWN, None),
    ("intel_xpumd_v2_otel", "Intel(R) Arc(TM) Pro B60 Graphics", 24, None),
    ("librehardwaremonitor_builtin", "AMD Radeon RX 9070", 16, None),
    ("macmon_apple", "Apple M3 Pro", 36, None),
    ("node_exporter_drm_unreadable_zero", None, UNKNOWN, None),
    ("node_exporter_hwmon_drm_amdgpu", None, 16, {"card": "card1"}),
    ("nvidia_gpu_exporter", "NVIDIA GeForce RTX 3090", 24, None),
    ("nvidia_gpu_exporter_datacenter_mig", "NVIDIA H100 80GB HBM3", 80, None),
    ("nvidia_gpu_prometheus_exporter_mindprince", "GeForce GTX 1080 Ti", 11, None),
    ("nvtop_exporter_spotdemo4", "DG2 (Arc A770)", 16, None),
    ("nvtop_exporter_virtuos", "NVIDIA L4", 24, None),
    ("ohmgraphite_amd", "AMD Radeon RX 7900 XT", 20, None),
    ("rocm_smi_exporter_raykrueger", "Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]", 20, None),
    ("telegraf_amd_rocm_smi", "Radeon RX 7900 XT", 20, None),
    ("telegraf_nvidia_smi", "NVIDIA GeForce RTX 3090", 24, None),
    ("windows_exporter_gpu", "AMD Radeon RX 7900 XT", 20, {"name": "AMD Radeon RX 7900 XT"}),
]


def test_discover_proposes_the_cards_of_all_pages(survey: Survey) -> None:
    proposals, left_out = discovery.propose(survey, Policy(profiles=profiles.built_in()))
    pages = {host: page for page, host in HOSTS.items()}
    shown = [(pages[one.spec.host], one.spec.model, one.spec.vram_gb, one.spec.card.match_labels) for one in proposals]
    assert sorted(shown, key=str) == sorted(DISCOVERED, key=str)
    told = {one.name for one in proposals if "vramGb is not known" in " ".join(one.notes)}
    assert told == {one.name for one in proposals if one.spec.vram_gb == UNKNOWN}
    drm, windows = HOSTS["node_exporter_hwmon_drm_amdgpu"], HOSTS["windows_exporter_gpu"]
    assert sorted(left_out) == sorted(
        [
            f"a card on {drm}: its 0.5 GB of memory are those of integrated graphics",
            f"AMD Radeon(TM) Graphics on {windows}: its 0.48 GB of memory are those of integrated graphics",
        ]
    )


def test_what_discover_prints_can_be_planned_and_applied(
    prometheus: Prometheus, survey: Survey, cluster: Cluster
) -> None:
    assert survey
    printed = gpu_topology("discover", prometheus)
    assert printed.returncode == 0
    assert len(printed.stderr.splitlines()) == 2  # the integrated graphics
    planned = gpu_topology("plan", prometheus, "--filename=-", stdin=printed.stdout)
    assert (planned.returncode, planned.stderr) == (0, "")
    assert f"cards         {len(DISCOVERED)} of {len(DISCOVERED)} cards online" in planned.stdout
    cluster.kubectl("apply", f"--kustomize={Path('crds').absolute()}")
    cluster.kubectl("wait", "--for=condition=Established", "crd/gpunodes.runtime.ialab.dev", "--timeout=30s")
    applied = cluster.kubectl("create", "--dry-run=server", "--filename=-", stdin=printed.stdout)
    assert len(applied.splitlines()) == len(DISCOVERED)


def gpu_topology(
    command: str, prometheus: Prometheus, *words: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("gpu-topology"))
    arguments = [program, command, f"--prometheus={prometheus.url}", *words]
    return subprocess.run(arguments, input=stdin, capture_output=True, text=True, check=False)
