"""A plan shows declared cards and their topology as the operator would publish them."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from controller.facts import (
    GpuNode,
    GpuNodeSpec,
    Instant,
    Policy,
    Sample,
    SourceFailure,
    Survey,
    Target,
    TargetHealth,
)
from controller.manifests import Declared
from controller.names import Reason
from controller.plan import Plan
from controller.profiles import built_in

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
READINGS = {"gpu_temp_c": 32.0, "gpu_load_pct": 0.0, "gpu_power_w": 49.0, "gpu_fan_rpm": 950.0}


def card(name: str, host: str, vram_gb: int, model: str, *, expected_offline: bool = False) -> GpuNode:
    spec = GpuNodeSpec(host=host, vram_gb=vram_gb, model=model, expected_offline=expected_offline)
    return GpuNode(name=name, uid=name, generation=1, spec=spec)


LAB = Declared(
    (
        card("rx7900xt", "192.168.1.60", 20, "RX7900XT", expected_offline=True),
        card("rx9070", "192.168.1.50", 16, "RX9070"),
    ),
    (),
)


def survey(*, node_2: bool = False) -> Survey:
    hosts = {"192.168.1.50": True, "192.168.1.60": node_2}
    labels = {host: {"job": "gpu-metrics", "instance": f"{host}:9183"} for host in hosts}
    targets = tuple(
        Target(
            f"http://{host}:9183/metrics",
            host,
            9183,
            labels[host],
            TargetHealth.UP if up else TargetHealth.DOWN,
            "" if up else "connection refused",
        )
        for host, up in hosts.items()
    )
    up = (host for host, is_up in hosts.items() if is_up)
    return Survey(targets, tuple(Sample(name, labels[host], value) for host in up for name, value in READINGS.items()))


def at(seconds: float) -> Instant:
    return Instant(START + timedelta(seconds=seconds), seconds)


@pytest.fixture
def plan() -> Plan:
    plan = Plan(LAB, Policy(profiles=built_in()))
    plan.take_in(survey(), at(0))
    return plan


def test_the_table_says_what_each_card_is_and_what_follows(plan: Plan) -> None:
    expected = """\
NAME       MODEL      HOST           VRAM   PHASE              REASON         TEMP   LOAD   POWER   FAN
rx7900xt   RX7900XT   192.168.1.60   20     expected_offline   ExporterDown
rx9070     RX9070     192.168.1.50   16     online             TargetsUp      32     0      49      950

mode          degraded_single_gpu
degradation   LIGHT, level 1
directives    force_llama, protect_qwen
cards         1 of 2 cards online; expected_offline: rx7900xt

rx7900xt   The target is down: http://192.168.1.60:9183/metrics: connection refused"""
    assert plan.show("table") == expected


def test_the_snapshot_is_the_one_of_the_old_file(plan: Plan) -> None:
    assert json.loads(plan.show("snapshot")) == {
        "mode": "degraded_single_gpu",
        "active_gpus": [
            {
                "name": "RX9070",
                "host": "192.168.1.50",
                "vram_gb": 16,
                "status": "online",
                "expected_offline": False,
                "gpu_temp_c": 32.0,
                "gpu_load_pct": 0.0,
                "gpu_power_w": 49.0,
                "gpu_fan_rpm": 950.0,
            }
        ],
        "inventory_gpus": [
            {
                "name": "RX7900XT",
                "host": "192.168.1.60",
                "vram_gb": 20,
                "status": "expected_offline",
                "expected_offline": True,
            }
        ],
        "unexpected_down": [],
    }


def test_yaml_and_json_are_the_resource(plan: Plan) -> None:
    resource = json.loads(plan.show("json"))
    assert yaml.safe_load(plan.show("yaml")) == resource
    status = resource.pop("status")
    assert resource == {
        "apiVersion": "runtime.ialab.dev/v1alpha1",
        "kind": "RuntimeTopology",
        "metadata": {"name": "cluster"},
        "spec": {"stabilizationSeconds": 30},
    }
    assert status["mode"] == "degraded_single_gpu"
    assert status["counts"] == {"total": 2, "active": 1, "inventory": 1, "unexpectedDown": 0, "unknown": 0}
    assert status["transitions"] == [
        {
            "to": "degraded_single_gpu",
            "level": 1,
            "at": "2026-01-01T12:00:00Z",
            "reason": "CardsOffline",
            "cards": ["rx7900xt", "rx9070"],
        }
    ]


def test_a_mode_change_waits_for_the_window_and_is_announced(plan: Plan) -> None:
    assert plan.take_in(survey(node_2=True), at(10)) == 20
    assert "mode          degraded_single_gpu\n" in plan.show("table")
    assert plan.show("table").endswith("\npending       multi_gpu at 12:00:30 UTC")
    assert plan.take_in(survey(node_2=True), at(30)) == 60
    assert "mode          multi_gpu\n" in plan.show("table")


def test_an_outage_changes_nothing_that_is_shown(plan: Plan) -> None:
    before = plan.show("table")
    plan.take_in(SourceFailure(Reason.CONNECTION_FAILED, "refused"), at(5))
    assert plan.show("table") == before


def test_a_fan_that_is_told_in_percent_is_shown_so() -> None:
    labels = {"job": "gpu-metrics", "instance": "192.168.1.50:9183", "uuid": "GPU-1"}
    fan = Sample("nvidia_gpu_fanspeed_percent", labels, 45)
    plan = Plan(LAB, Policy(profiles=built_in()))
    plan.take_in(replace(survey(), samples=(fan,)), at(0))
    assert plan.show("table").splitlines()[2].split()[-2:] == ["TargetsUp", "45%"]
