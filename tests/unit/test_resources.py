"""Both resources are read as the API server hands them out."""

from datetime import UTC, datetime

import pytest

from controller import resources
from controller.facts import (
    GpuNodeSpec,
    LabelRequirement,
    LabelSelector,
    Operator,
    RuntimeTopologySpec,
    ServiceSpec,
    TargetSelector,
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"stabilizationSeconds": 3}, RuntimeTopologySpec(stabilization_seconds=3), id="the window counts"),
        pytest.param({}, RuntimeTopologySpec(stabilization_seconds=30), id="without a window it is 30 s"),
        pytest.param(None, RuntimeTopologySpec(stabilization_seconds=30), id="without a spec it is 30 s"),
        pytest.param(
            {
                "selector": {
                    "matchLabels": {"tier": "big"},
                    "matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}],
                },
                "services": [{"name": "Gateway", "host": "192.168.1.30", "port": 8008}],
            },
            RuntimeTopologySpec(
                selector=LabelSelector(
                    match_labels={"tier": "big"},
                    match_expressions=(LabelRequirement(key="rack", operator=Operator.IN, values=("1",)),),
                ),
                services=(ServiceSpec(name="Gateway", host="192.168.1.30", port=8008),),
            ),
            id="selector and services",
        ),
    ],
)
def test_topology_spec(spec: object, expected: RuntimeTopologySpec) -> None:
    assert resources.parse_topology({"metadata": {"name": "cluster"}, "spec": spec}).spec == expected


def test_a_node_says_when_it_was_created() -> None:
    metadata = {"name": "a", "creationTimestamp": "2026-01-01T12:00:00Z"}
    assert resources.parse_node({"metadata": metadata}).created == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert resources.parse_node({"metadata": {"name": "a"}}).created is None


def test_node_spec_is_read_in_camel_case() -> None:
    spec = {"host": "h", "vramGb": 16, "expectedOffline": True, "target": {"ports": [9182], "job": "gpu"}}
    expected = GpuNodeSpec(host="h", vram_gb=16, expected_offline=True, target=TargetSelector(ports=(9182,), job="gpu"))
    assert resources.parse_node({"metadata": {"name": "a"}, "spec": spec}).spec == expected


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param({"host": "h", "vramGb": "16"}, "spec.vramGb: Input should be a valid integer", id="text as size"),
        pytest.param({"host": "h"}, "spec.vramGb: Field required", id="no size"),
    ],
)
def test_a_spec_that_cannot_be_read_is_a_problem_of_its_own(spec: object, problem: str) -> None:
    node = resources.parse_node({"metadata": {"name": "a"}, "spec": spec})
    assert (node.spec, node.problem) == (None, problem)
