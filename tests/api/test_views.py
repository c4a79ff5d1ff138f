"""What kubectl shows of both kinds, and by which names it finds them."""

import re
from collections.abc import Iterator, Mapping

import pytest

from tests.api.kubectl import Api

NODE = {"host": "192.168.1.50", "vramGb": 16, "model": "RX9070"}
NODE_STATUS = {
    "model": "RX9070",
    "phase": "unexpected_down",
    "health": "offline",
    "reason": "TargetDown",
    "gpuTempC": 32.5,
    "gpuLoadPct": 0.0,
    "gpuPowerW": 49.0,
    "gpuFanRpm": 950.0,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
TOPOLOGY_STATUS = {
    "mode": "degraded_single_gpu",
    "degradation": {"level": 1, "name": "LIGHT", "directives": ["force_llama", "protect_qwen"]},
    "counts": {"total": 10, "active": 1, "inventory": 2, "unexpectedDown": 3, "unknown": 4},
    "pendingMode": "multi_gpu",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
AGE = r"\d+[a-z]\S*"

COLUMNS = {
    "gpunode": ["NAME", "HOST", "VRAM", "HEALTH", "PHASE", "TEMP", "LOAD", "SINCE", "AGE"],
    "runtimetopology": [
        "NAME", "MODE", "DEGRADATION", "LEVEL", "ACTIVE", "INVENTORY", "DOWN", "PENDING", "SINCE", "AGE",
    ],
}  # fmt: skip
WIDE = {"gpunode": ["MODEL", "EXPECTED", "REASON", "POWER", "FAN"], "runtimetopology": []}

SETTLED = {
    "gpunode": f"seen-card 192.168.1.50 16 offline unexpected_down 32.5 0 {AGE} {AGE} RX9070 false TargetDown 49 950",
    "runtimetopology": f"seen-map degraded_single_gpu LIGHT 1 1 2 3 multi_gpu {AGE} {AGE}",
}
FRESH = {
    "gpunode": rf"fresh-card 192.168.1.50 16 {AGE} false",
    "runtimetopology": f"fresh-map {AGE}",
}


def table(api: Api, *args: str) -> list[list[str]]:
    return [line.split() for line in api.kubectl("get", *args).splitlines()]


@pytest.fixture(scope="module", autouse=True)
def seen(api: Api) -> Iterator[Mapping[str, str]]:
    with (
        api.stored("GpuNode", "fresh-card", NODE),
        api.stored("RuntimeTopology", "fresh-map", None),
        api.stored("GpuNode", "seen-card", NODE) as card,
        api.stored("RuntimeTopology", "seen-map", None) as topology,
    ):
        api.report(card, NODE_STATUS)
        api.report(topology, TOPOLOGY_STATUS)
        yield {"gpunode": card, "runtimetopology": topology}


@pytest.mark.parametrize("kind", COLUMNS)
def test_c09_columns(api: Api, kind: str) -> None:
    assert table(api, kind)[0] == COLUMNS[kind]


@pytest.mark.parametrize("kind", COLUMNS)
def test_c09_wide_columns(api: Api, kind: str) -> None:
    assert table(api, kind, "--output=wide")[0] == COLUMNS[kind] + WIDE[kind]


@pytest.mark.parametrize("kind", COLUMNS)
def test_c09_no_cell_of_a_settled_object_is_blank(api: Api, seen: Mapping[str, str], kind: str) -> None:
    row = " ".join(table(api, seen[kind], "--output=wide")[1])

    assert re.fullmatch(SETTLED[kind], row)


@pytest.mark.parametrize(("kind", "name"), [("gpunode", "fresh-card"), ("runtimetopology", "fresh-map")])
def test_c09_an_object_without_status_shows_what_was_declared(api: Api, kind: str, name: str) -> None:
    row = " ".join(table(api, kind, name, "--output=wide")[1])

    assert re.fullmatch(FRESH[kind], row)


@pytest.mark.parametrize("name", ["gpun", "gpunode", "gpunodes", "gpunodes.v1alpha1.runtime.ialab.dev"])
def test_names_of_gpunode(api: Api, name: str) -> None:
    assert "gpunode.runtime.ialab.dev/seen-card" in api.kubectl("get", name, "--output=name").split()


@pytest.mark.parametrize(
    "name", ["rtopo", "runtimetopology", "runtimetopologies", "runtimetopologies.v1alpha1.runtime.ialab.dev"]
)
def test_names_of_runtimetopology(api: Api, name: str) -> None:
    assert "runtimetopology.runtime.ialab.dev/seen-map" in api.kubectl("get", name, "--output=name").split()


def test_the_category_holds_both_kinds(api: Api) -> None:
    found = set(api.kubectl("get", "gpu", "--output=name").split())

    assert {"gpunode.runtime.ialab.dev/seen-card", "runtimetopology.runtime.ialab.dev/seen-map"} <= found


def test_neither_kind_is_in_the_category_all(api: Api) -> None:
    assert "runtime.ialab.dev" not in api.kubectl("get", "all", "--output=name")


def test_cards_are_found_by_phase(api: Api) -> None:
    found = api.kubectl("get", "gpun", "--field-selector=status.phase=unexpected_down", "--output=name").split()

    assert "gpunode.runtime.ialab.dev/seen-card" in found
    assert "gpunode.runtime.ialab.dev/fresh-card" not in found


def test_topologies_are_found_by_mode(api: Api) -> None:
    found = api.kubectl("get", "rtopo", "--field-selector=status.mode=degraded_single_gpu", "--output=name").split()

    assert "runtimetopology.runtime.ialab.dev/seen-map" in found
    assert "runtimetopology.runtime.ialab.dev/fresh-map" not in found
