"""What the operator may write into status, and what stays of it."""

import itertools
import json
import re
from collections.abc import Iterator

import pytest

from tests.api.kubectl import Api

TIME = "2026-01-01T00:00:00Z"
MODES = ["multi_gpu", "single_gpu", "degraded_single_gpu", "inventory_only"]
PHASES = ["online", "expected_offline", "unexpected_down", "unknown"]
LISTS = ["activeGpus", "inventoryGpus", "unexpectedDown", "unknownGpus"]
CARD = {
    "name": "rx9070",
    "model": "RX9070",
    "host": "192.168.1.50",
    "vramGb": 16,
    "status": "online",
    "expectedOffline": False,
}
READINGS = {"gpuTempC": 32.0, "gpuLoadPct": 0.0, "gpuPowerW": 49.0, "gpuFanRpm": 950.0}
COUNTS = {"total": 1, "active": 1, "inventory": 0, "unexpectedDown": 0, "unknown": 0}
CONDITION = {
    "type": "Ready",
    "status": "True",
    "observedGeneration": 1,
    "lastTransitionTime": TIME,
    "reason": "Current",
    "message": "",
}
TARGET = {"scrapeUrl": "http://192.168.1.50:9182/metrics", "job": "gpu", "health": "down", "lastError": "refused"}

Status = dict[str, object]


def degradation(level: int, name: str, *directives: str) -> Status:
    return {"degradation": {"level": level, "name": name, "directives": list(directives)}}


def condition(**change: object) -> Status:
    return {"conditions": [{**CONDITION, **change}]}


def awaited(*types: tuple[str, str]) -> Status:
    """Return the status that an object has by default."""
    message = "The operator has not judged this object yet"
    times = {"observedGeneration": 0, "lastTransitionTime": "1970-01-01T00:00:00Z"}
    return {
        "observedGeneration": 0,
        "conditions": [
            {"type": type_, "status": status, "reason": "AwaitingOperator", "message": message, **times}
            for type_, status in types
        ],
    }


NODE_DEFAULT = awaited(("Ready", "Unknown"))
TOPOLOGY_DEFAULT = awaited(("Ready", "Unknown"), ("Reconciling", "True"))

HEALTHS = ("online", "offline", "unknown")
CONDITIONS = ("Ready", "Degraded", "SourceAvailable", "ServicesHealthy", "Reconciling", "Stalled")
BROKEN = {"name": "old", "model": "old", "status": "unknown", "expectedOffline": False}
SERVICE = {"name": "Gateway", "host": "192.168.1.30", "port": 8008, "health": "online"}
START = {"to": "multi_gpu", "at": TIME, "reason": "SeveralCardsOnline"}
ENUM = "supported values: "

NODE_TAKES: dict[str, Status] = {
    **{f"phase {phase}": {"phase": phase} for phase in PHASES},
    **{f"health {health}": {"health": health} for health in HEALTHS},
    **{f"a condition that is {word}": condition(status=word) for word in ("True", "False", "Unknown")},
    **{f"a target that is {word}": {"targets": [{**TARGET, "health": word}]} for word in ("up", "down", "unknown")},
    "one scrape URL in two jobs": {"targets": [TARGET, {**TARGET, "job": "gpu-slow"}]},
    "one target twice": {"targets": [TARGET, TARGET]},
    "a target without job and error": {"targets": [{"scrapeUrl": "http://a:9182/metrics", "health": "up"}]},
    "a reason, its text and its time": {"reason": "TargetDown", "message": "m" * 2048, "lastTransitionTime": TIME},
    "a large generation": {"observedGeneration": 2**40},
    "the lab's readings": {**READINGS, "gpuFanPct": 38.0, "gpuMemoryUsedGb": 3.25},
    "readings at zero": dict.fromkeys(READINGS, 0),
    "readings that overshoot": {
        "gpuTempC": -12,
        "gpuLoadPct": 100.4,
        "gpuPowerW": 2000,
        "gpuFanRpm": 20000,
        "gpuFanPct": 104.0,
    },
}
NODE_REFUSES: dict[str, tuple[Status, str]] = {
    "a health as phase": ({"phase": "offline"}, ENUM),
    "a phase as health": ({"health": "expected_offline"}, ENUM),
    "a card's health as a target's": ({"targets": [{**TARGET, "health": "online"}]}, ENUM),
    "a temperature that says not known": ({"gpuTempC": 65535}, "should be less than or equal to 250"),
    "a negative load": ({"gpuLoadPct": -1}, "should be greater than or equal to 0"),
    "a reading in quotes": ({"gpuTempC": "32"}, "must be of type number"),
    "a time in words": ({"lastTransitionTime": "yesterday"}, "must be of type date-time"),
    "a message of 2049 characters": ({"message": "m" * 2049}, "Too long: may not be more than 2048"),
    "a condition twice": ({"conditions": [CONDITION, CONDITION]}, 'Duplicate value: {"type":"Ready"}'),
    "a condition in lower case": (condition(status="true"), ENUM),
    "a condition with a reason of two words": (condition(reason="two words"), "should match"),
    "a condition without reason": (condition(reason=""), "at least 1 chars long"),
}

TOPOLOGY_TAKES: dict[str, Status] = {
    **{f"mode {mode}": {"mode": mode} for mode in MODES},
    **{f"pending mode {mode}": {"pendingMode": mode, "holdUntil": TIME} for mode in MODES},
    "full service": degradation(0, "NORMAL", "full_routing"),
    "full service of one card": degradation(0, "NORMAL"),
    "light degradation": degradation(1, "LIGHT", "force_llama", "protect_qwen"),
    "heavy degradation": degradation(2, "HEAVY", "block_heavy_routes"),
    **{
        f"a card of every phase in {list_}": {list_: [{**CARD, "status": phase} for phase in PHASES]} for list_ in LISTS
    },
    "an active card with readings": {"activeGpus": [{**CARD, **READINGS}], "activeVramGb": 16, "counts": COUNTS},
    "an unknown card of which only the name can be read": {"unknownGpus": [BROKEN]},
    "many cards": {"inventoryGpus": [{**CARD, "name": f"gpu-{number}"} for number in range(64)]},
    "every change": {
        "transitions": [{**START, "from": start, "to": end} for start, end in itertools.permutations(MODES, 2)]
    },
    "20 changes": {"transitions": [START] * 20},
    **{f"a service that is {health}": {"services": [{**SERVICE, "health": health}]} for health in HEALTHS},
    "a lease": {"observedAt": TIME, "validForSeconds": 180},
    "a generation and a time": {"observedGeneration": 1, "lastTransitionTime": TIME},
    **{f"condition {type_}": condition(type=type_) for type_ in CONDITIONS},
}
TOPOLOGY_REFUSES: dict[str, tuple[Status, str]] = {
    "a mode in upper case": ({"mode": "MULTI_GPU"}, ENUM),
    "an empty pending mode": ({"pendingMode": ""}, ENUM),
    "level 3": (degradation(3, "HEAVY"), "should be less than or equal to 2"),
    "a degradation in lower case": (degradation(0, "normal"), ENUM),
    "a directive that no one knows": (degradation(0, "NORMAL", "stop"), ENUM),
    "a directive twice": (degradation(0, "NORMAL", "full_routing", "full_routing"), 'Duplicate value: "full_routing"'),
    **{f"a health as status in {list_}": ({list_: [{**CARD, "status": "offline"}]}, ENUM) for list_ in LISTS},
    **{
        f"a card without {field}": (
            {"activeGpus": [{name: value for name, value in CARD.items() if name != field}]},
            f"status.activeGpus[0].{field}: Required value",
        )
        for field in CARD
    },
    **{
        f"counts without {field}": ({"counts": {**COUNTS, field: None}}, f"status.counts.{field}: Required value")
        for field in COUNTS
    },
    "a change to nowhere": ({"transitions": [{"from": "multi_gpu", "at": TIME, "reason": "A"}]}, "to: Required value"),
    "21 changes": ({"transitions": [START] * 21}, "must have at most 20"),
    "a target's health as a service's": ({"services": [{**SERVICE, "health": "up"}]}, ENUM),
    "a lease of no time": ({"validForSeconds": 0}, "should be greater than or equal to 1"),
}


@pytest.fixture(scope="module")
def node(api: Api) -> Iterator[str]:
    with api.stored("GpuNode", "status-card", {"host": "192.168.1.50", "vramGb": 16}) as target:
        yield target


@pytest.fixture(scope="module")
def topology(api: Api) -> Iterator[str]:
    with api.stored("RuntimeTopology", "status-map", None) as target:
        yield target


@pytest.mark.parametrize("status", NODE_TAKES.values(), ids=NODE_TAKES.keys())
def test_a_gpunode_takes(api: Api, node: str, status: Status) -> None:
    assert api.report(node, status, "--dry-run=server")["status"] == {**NODE_DEFAULT, **status}


@pytest.mark.parametrize(("status", "message"), NODE_REFUSES.values(), ids=NODE_REFUSES.keys())
def test_a_gpunode_refuses(api: Api, node: str, status: Status, message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        api.report(node, status, "--dry-run=server")


@pytest.mark.parametrize("status", TOPOLOGY_TAKES.values(), ids=TOPOLOGY_TAKES.keys())
def test_a_runtimetopology_takes(api: Api, topology: str, status: Status) -> None:
    assert api.report(topology, status, "--dry-run=server")["status"] == {**TOPOLOGY_DEFAULT, **status}


@pytest.mark.parametrize(("status", "message"), TOPOLOGY_REFUSES.values(), ids=TOPOLOGY_REFUSES.keys())
def test_a_runtimetopology_refuses(api: Api, topology: str, status: Status, message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        api.report(topology, status, "--dry-run=server")


def test_c11_status_in_a_manifest_is_ignored(api: Api) -> None:
    body = {
        "apiVersion": "runtime.ialab.dev/v1alpha1",
        "kind": "GpuNode",
        "metadata": {"name": "offered"},
        "spec": {"host": "192.168.1.50", "vramGb": 16},
        "status": {"phase": "online"},
    }

    stored = api.kubectl("apply", "--dry-run=server", "--output=json", "--filename=-", stdin=json.dumps(body))

    assert "phase" not in json.loads(stored).get("status", {})


def test_c02_an_object_that_no_operator_has_judged_says_so(api: Api, node: str, topology: str) -> None:
    shown = [json.loads(api.kubectl("get", one, "--output=json"))["status"] for one in (node, topology)]

    assert shown == [NODE_DEFAULT, TOPOLOGY_DEFAULT]


@pytest.fixture
def written(api: Api) -> Iterator[str]:
    with api.stored("GpuNode", "written-card", {"host": "192.168.1.50", "vramGb": 16}) as target:
        yield target


def test_a_status_write_leaves_the_generation_alone(api: Api, written: str) -> None:
    assert api.report(written, {"phase": "online"})["metadata"]["generation"] == 1


def test_the_same_status_again_is_no_write(api: Api, written: str) -> None:
    status: Status = {"phase": "online", "conditions": [CONDITION], "targets": [TARGET], **READINGS}

    first, second = (api.report(written, status)["metadata"]["resourceVersion"] for _ in range(2))

    assert first == second
