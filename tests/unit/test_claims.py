"""What matching means for the statuses of cards: what is missing, ambiguous, claimed twice, shared or foreign."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from controller.conditions import find
from controller.decisions import decide
from controller.facts import (
    CardSelector,
    GpuNode,
    GpuNodeSpec,
    GpuNodeStatus,
    Instant,
    Memory,
    Mode,
    Phase,
    Policy,
    RuntimeTopology,
    RuntimeTopologySpec,
    Sample,
    Survey,
    Target,
    TargetHealth,
    World,
)
from controller.matching import normal_host
from controller.names import Condition, Reason
from controller.profiles import built_in

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def card(name: str, host: str, *, expected_offline: bool = False, selector: CardSelector | None = None) -> GpuNode:
    spec = GpuNodeSpec(host=host, vram_gb=16, expected_offline=expected_offline, card=selector or CardSelector())
    return GpuNode(name=name, uid=name, generation=1, spec=spec)


def target(host: str, port: int = 9182, health: TargetHealth = TargetHealth.UP) -> Target:
    labels = {"job": "gpu", "instance": f"{host}:{port}"}
    return Target(f"http://{host}:{port}/metrics", normal_host(host), port, labels, health, "")


def series(of: Target, **labels: str) -> Sample:
    return Sample("gpu_temp_c", {**of.labels, **labels}, 40)


class Fleet:
    """Cards that are looked at again and again, as passes do."""

    def __init__(self, *nodes: GpuNode) -> None:
        self.nodes, self.memory = nodes, Memory()
        self.topology = RuntimeTopology(name="cluster", uid="t", generation=1, spec=RuntimeTopologySpec())
        self.writes = 0

    def look(self, seconds: float, targets: list[Target], samples: list[Sample]) -> dict[str, tuple[Phase, Reason]]:
        now = Instant(START + timedelta(seconds=seconds), seconds)
        world = World(self.nodes, (self.topology,), Survey(tuple(targets), tuple(samples)))
        decision = decide(world, self.memory, now, Policy(profiles=built_in()))
        self.memory, self.writes = decision.memory, len(decision.topologies)
        judged = {change.node.name: change.status for change in decision.nodes}
        self.nodes = tuple(replace(node, status=judged.get(node.name, node.status)) for node in self.nodes)
        for change in decision.topologies:
            self.topology = replace(self.topology, status=change.status)
        return {node.name: (self.status(node.name).phase, self.status(node.name).reason) for node in self.nodes}

    def status(self, name: str) -> GpuNodeStatus:
        status = next(node.status for node in self.nodes if node.name == name)
        assert status is not None
        return status


BOX = target("box")


@pytest.mark.parametrize(
    ("expected_offline", "phase"),
    [pytest.param(False, Phase.UNKNOWN, id="as a fault"), pytest.param(True, Phase.EXPECTED_OFFLINE, id="as planned")],
)
def test_p04_a_host_that_vanishes_from_the_list_is_missing_after_its_time_of_grace(
    expected_offline: bool,  # noqa: FBT001 - a column
    phase: Phase,
) -> None:
    fleet = Fleet(card("gone", "box", expected_offline=expected_offline), card("other", "desk"))
    others = [target("desk"), target("desk", 9183)]
    samples = [series(BOX), series(others[0])]
    assert fleet.look(0, [BOX, *others], samples)["gone"] == (Phase.ONLINE, Reason.TARGETS_UP)
    assert fleet.look(5, others, samples[1:])["gone"] == (Phase.ONLINE, Reason.TARGET_MISSING)
    assert fleet.look(65, others, samples[1:])["gone"] == (phase, Reason.TARGET_MISSING)


def test_p28_a_target_whose_gpunode_is_gone_is_no_card() -> None:
    fleet = Fleet(card("box", "box"))
    foreign = [target("desk"), target("box", 9100), target("10.0.0.1")]
    assert fleet.look(0, [BOX, *foreign], [series(one) for one in (BOX, *foreign)]).keys() == {"box"}
    assert fleet.topology.status is not None
    assert fleet.topology.status.counts.total == 1
    assert [one.scrape_url for one in fleet.status("box").targets] == [BOX.scrape_url]


def test_p08_an_ambiguous_host_is_unknown_and_says_which_it_can_be() -> None:
    fleet = Fleet(card("box", "box"))
    assert fleet.look(0, [target("box.lan"), target("box.office")], []) == {
        "box": (Phase.UNKNOWN, Reason.TARGET_AMBIGUOUS)
    }
    status = fleet.status("box")
    assert status.message.startswith("Host box can be any of box.lan, box.office in Prometheus: ")
    assert status.message.endswith("; write the name in full, here and there")
    matched = find(status.conditions, Condition.TARGET_MATCHED)
    assert matched is not None
    assert matched.reason == Reason.TARGET_AMBIGUOUS


def test_u07_a_card_without_target_says_which_candidates_there_are() -> None:
    fleet = Fleet(card("desk", "desk"))
    fleet.look(0, [target("host.minikube.internal")], [])
    assert fleet.status("desk").message == (
        "No scrape target of Prometheus is on host desk and on a port of this card: no target on port 9182 or 9183 has "
        "desk as host in its scrape URL, __address__, instance or a label of host, hostname, Hostname, node, nodename, "
        "__meta_kubernetes_pod_node_name, __meta_kubernetes_node_name; near it: host.minikube.internal:9182 (another "
        "host); add it to Prometheus or correct spec.host"
    )


def test_u01_a_laptop_without_any_target_is_off_as_planned() -> None:
    fleet = Fleet(card("bigbox", "bigbox"), card("laptop", "laptop", expected_offline=True))
    there = target("192.0.2.3")
    there = there._replace(labels={**there.labels, "host": "bigbox"})
    assert fleet.look(0, [there], [series(there)]) == {
        "bigbox": (Phase.ONLINE, Reason.TARGETS_UP),
        "laptop": (Phase.EXPECTED_OFFLINE, Reason.TARGET_MISSING),
    }


def test_p09_a_duplicate_does_not_count_and_both_say_so() -> None:
    fleet = Fleet(card("first", "BOX"), card("second", "box"))
    assert fleet.look(0, [BOX], [series(BOX)]) == {
        "first": (Phase.ONLINE, Reason.TARGETS_UP),
        "second": (Phase.UNKNOWN, Reason.CARD_CLAIMED_TWICE),
    }
    assert [fleet.status(name).message for name in ("first", "second")] == [
        "The target is up; the same card is claimed by GpuNode second, younger, which does not count",
        "GpuNode first is older and claims the same card; delete one of them, or tell them apart by spec.card",
    ]
    assert fleet.topology.status is not None
    assert fleet.topology.status.mode is Mode.SINGLE_GPU


def test_a_duplicate_that_is_corrected_counts_at_once() -> None:
    there = [series(BOX, gpu="0"), series(BOX, gpu="1")]
    fleet = Fleet(card("a", "box", selector=CardSelector(index=0)), card("b", "box", selector=CardSelector(index=0)))
    assert fleet.look(0, [BOX], there)["b"] == (Phase.UNKNOWN, Reason.CARD_CLAIMED_TWICE)
    a, b = fleet.nodes
    fleet.nodes = a, replace(b, spec=GpuNodeSpec(host="box", vram_gb=16, card=CardSelector(index=1)), generation=2)
    assert fleet.look(5, [BOX], there) == dict.fromkeys("ab", (Phase.ONLINE, Reason.TARGETS_UP))


def test_g11_of_two_cards_that_are_told_apart_the_one_without_series_is_down_alone() -> None:
    fleet = Fleet(*(card(f"card-{n}", "box", selector=CardSelector(uuid=f"GPU-{n}")) for n in (0, 1)))
    there = [series(BOX, uuid=str(n)) for n in (0, 1)]
    fleet.look(0, [BOX], there)
    fleet.look(5, [BOX], there[:1])
    assert fleet.look(6, [BOX], there[:1]) == {
        "card-0": (Phase.ONLINE, Reason.TARGETS_UP),
        "card-1": (Phase.UNEXPECTED_DOWN, Reason.METRICS_MISSING),
    }


def test_g12_a_replaced_card_is_back_with_the_edit_of_its_uuid() -> None:
    fleet = Fleet(card("a", "box", selector=CardSelector(uuid="GPU-a")))
    fleet.look(0, [BOX], [series(BOX, uuid="a")])
    new = [series(BOX, uuid="b")]
    fleet.look(5, [BOX], new)
    assert fleet.look(6, [BOX], new)["a"] == (Phase.UNEXPECTED_DOWN, Reason.METRICS_MISSING)
    assert fleet.status("a").message.endswith("or spec.card does not fit; they have series of card uuid b")
    (node,) = fleet.nodes
    spec = GpuNodeSpec(host="box", vram_gb=16, card=CardSelector(uuid="GPU-b"))
    fleet.nodes = (replace(node, spec=spec, generation=2),)
    assert fleet.look(7, [BOX], new)["a"] == (Phase.ONLINE, Reason.TARGETS_UP)


def test_u04_four_cards_behind_one_target_flip_together_with_one_write_of_the_topology() -> None:
    fleet = Fleet(*(card(f"card-{n}", "box", selector=CardSelector(index=n)) for n in range(4)))
    fleet.look(0, [BOX], [series(BOX, gpu=str(n)) for n in range(4)])
    down = target("box", health=TargetHealth.DOWN)
    assert fleet.look(5, [down], []) == {f"card-{n}": (Phase.UNEXPECTED_DOWN, Reason.TARGET_DOWN) for n in range(4)}
    assert fleet.writes == 1


def test_g15_a_pod_that_comes_back_elsewhere_changes_nothing_and_leaves_no_ghost() -> None:
    def pod(address: str) -> Target:
        there = target(address)
        return there._replace(labels={**there.labels, "node": "box"})

    fleet = Fleet(card("a", "box"))
    others = [target("desk"), target("desk", 9183)]
    old, new = pod("10.0.0.1"), pod("10.0.0.2")
    fleet.look(0, [old, *others], [series(old)])
    assert fleet.look(5, others, [])["a"] == (Phase.ONLINE, Reason.TARGET_MISSING)
    assert fleet.look(25, [new, *others], [series(new)])["a"] == (Phase.ONLINE, Reason.TARGETS_UP)
    assert [one.scrape_url for one in fleet.status("a").targets] == [new.scrape_url]


def test_a_message_about_many_long_names_fits_into_a_status() -> None:
    long = [".".join(["box", f"{n}" + "l" * 60, "m" * 60, "n" * 60]) for n in range(9)]
    for names in (long, [f"x{name}" for name in long]):
        fleet = Fleet(card("a", "box"))
        fleet.look(0, [target(name) for name in names], [])
        message = fleet.status("a").message
        assert len(message) < 2048
        assert not message.endswith("…")


def test_a_scraper_that_is_cut_off_is_noticed_also_where_cards_are_found_by_a_label() -> None:
    fleet = Fleet(card("bigbox", "bigbox"))

    def seen(health: TargetHealth) -> list[Target]:
        gpu, other = target("192.0.2.3", health=health), target("desk", 80, health)
        return [gpu._replace(labels={**gpu.labels, "host": "bigbox"}), other]

    up = seen(TargetHealth.UP)
    assert fleet.look(0, up, [series(up[0])])["bigbox"] == (Phase.ONLINE, Reason.TARGETS_UP)
    assert fleet.look(5, seen(TargetHealth.DOWN), [])["bigbox"] == (Phase.ONLINE, Reason.TARGETS_UP)
