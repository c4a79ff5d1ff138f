"""C02: how generic tools (kstatus, and Flux with it) read a topology at each stage of its life."""

from pathlib import Path
from typing import Any

import yaml

from controller.names import DEFAULT_TOPOLOGY
from tests.unit.simulation import Sight, Simulation

CRDS = Path(__file__).parents[2] / "crds"


def kstatus(resource: dict[str, Any]) -> str:
    """Apply kstatus' rules to an object, in its order."""
    status = resource.get("status") or {}
    if status.get("observedGeneration", resource["metadata"]["generation"]) != resource["metadata"]["generation"]:
        return "InProgress"
    said = {condition["type"]: condition["status"] for condition in status.get("conditions", ())}
    if said.get("Reconciling") == "True":
        return "InProgress"
    if said.get("Stalled") == "True":
        return "Failed"
    return "Current" if said.get("Ready", "True") == "True" else "InProgress"


def topology(simulation: Simulation) -> str:
    return kstatus(simulation.topologies[DEFAULT_TOPOLOGY])


def fleet() -> Simulation:
    simulation = Simulation()
    simulation.declare_topology()
    for name in "ab":
        simulation.declare(name)
        simulation.show(name, Sight.UP)
    return simulation


def test_c02_a_fresh_object_is_in_progress_also_where_no_operator_runs() -> None:
    for file in ("gpunodes.yaml", "runtimetopologies.yaml"):
        (version,) = yaml.safe_load((CRDS / file).read_text())["spec"]["versions"]
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["default"]
        assert kstatus({"metadata": {"generation": 1}, "status": status}) == "InProgress"


def test_c02_a_topology_is_current_once_it_is_judged_and_whatever_its_mode_is() -> None:
    simulation = fleet()
    simulation.run(40)
    seen = [topology(simulation)]
    for name in "ab":
        simulation.show(name, Sight.DOWN)
        simulation.run(40)
        seen.append(topology(simulation))
    assert seen == ["Current"] * 3


def test_c02_a_topology_whose_mode_waits_is_in_progress() -> None:
    simulation = fleet()
    simulation.run(10)
    simulation.show("b", Sight.DOWN)
    simulation.run(5)
    assert topology(simulation) == "InProgress"


def test_c02_a_topology_that_prometheus_never_answered_for_is_in_progress_and_failed_after_two_minutes() -> None:
    simulation = fleet()
    simulation.fail()
    simulation.run(100)
    early = topology(simulation)
    simulation.run(30)
    assert (early, topology(simulation)) == ("InProgress", "Failed")


def test_c01_an_edit_is_in_progress_until_it_is_judged_also_while_prometheus_is_away() -> None:
    simulation = fleet()
    simulation.run(40)
    simulation.fail()
    simulation.declare_topology(window=31)
    simulation.declare("a", model="RX9070")
    before = topology(simulation)
    simulation.run()
    objects = (simulation.topologies[DEFAULT_TOPOLOGY], simulation.nodes["a"])
    assert before == "InProgress"
    for one in objects:
        generations = {condition["observedGeneration"] for condition in one["status"]["conditions"]}
        assert (one["status"]["observedGeneration"], generations) == (2, {2})


def test_c02_a_spec_that_cannot_be_read_is_failed() -> None:
    simulation = fleet()
    simulation.run(40)
    simulation.declare_topology(services="none")
    simulation.run()
    assert topology(simulation) == "Failed"
