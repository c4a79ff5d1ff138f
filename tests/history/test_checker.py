"""The judge finds a breach of each rule in a history that has it, and none in a good one."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.history.checker import Breach, Rule, Terms, check
from tests.history.history import ADDED, DELETED, GPU_NODES, MODIFIED, RUNTIME_TOPOLOGIES, Revision

Resource = dict[str, Any]
WINDOW = 10


def stamp(second: int) -> str:
    return f"2026-01-01T12:{second // 60:02}:{second % 60:02}Z"


def condition(second: int, status: str = "True") -> Resource:
    return {"type": "Ready", "status": status, "reason": "Current", "lastTransitionTime": stamp(second)}


def node(name: str, phase: str, second: int) -> Resource:
    managed = [{"manager": "gpu-topology", "subresource": "status", "fieldsV1": {"f:status": {"f:phase": {}}}}]
    status = {
        "observedGeneration": 1,
        "phase": phase,
        "lastTransitionTime": stamp(second),
        "conditions": [condition(0)],
    }
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "managedFields": managed},
        "spec": {"host": name, "vramGb": 16},
        "status": status,
    }


def topology(cards: dict[str, str], *changes: tuple[str, int], pending: str = "", observed: int = 0) -> Resource:
    """Return a topology over cards by phase, after changes of mode in their order."""
    modes = {
        "multi_gpu": (0, "NORMAL", ["full_routing"]),
        "degraded_single_gpu": (1, "LIGHT", ["force_llama", "protect_qwen"]),
        "inventory_only": (2, "HEAVY", ["block_heavy_routes"]),
    }
    lists = {
        field: [{"name": name, "vramGb": 16, "status": phase} for name, phase in cards.items() if phase == wanted]
        for field, wanted in (
            ("activeGpus", "online"),
            ("inventoryGpus", "expected_offline"),
            ("unexpectedDown", "unexpected_down"),
            ("unknownGpus", "unknown"),
        )
    }
    mode, at = changes[-1]
    level, name, directives = modes[mode]
    befores = [None, *(before for before, _ in changes)]
    transitions = [
        {**({"from": before} if before else {}), "to": to, "at": stamp(second), "reason": "NoCardOnline"}
        for before, (to, second) in zip(befores, changes, strict=False)
    ]
    counts = {
        count: len(lists[field])
        for count, field in (
            ("active", "activeGpus"),
            ("inventory", "inventoryGpus"),
            ("unexpectedDown", "unexpectedDown"),
            ("unknown", "unknownGpus"),
        )
    }
    status = {
        "observedGeneration": 1,
        "mode": mode,
        "degradation": {"level": level, "name": name, "directives": directives},
        **lists,
        "counts": {**counts, "total": len(cards)},
        "activeVramGb": 16 * counts["active"],
        "lastTransitionTime": stamp(at),
        "transitions": transitions[::-1],
        "observedAt": stamp(observed or at),
        "validForSeconds": 60,
        "conditions": [condition(0)],
        **({"pendingMode": pending} if pending else {}),
    }
    managed = [{"manager": "gpu-topology", "subresource": "status", "fieldsV1": {"f:status": {"f:mode": {}}}}]
    return {
        "metadata": {"name": "cluster", "uid": "uid-cluster", "generation": 1, "managedFields": managed},
        "spec": {"stabilizationSeconds": WINDOW},
        "status": status,
    }


UP, DOWN = {"a": "online", "b": "online"}, {"a": "online", "b": "unexpected_down"}
MULTI, DEGRADED = ("multi_gpu", 0), ("degraded_single_gpu", 10)


def history() -> list[Revision]:
    """Return a good history: two cards, one goes down inside the window, the other is deleted later."""
    told: list[tuple[float, str, str, Resource]] = [
        (-1, GPU_NODES, ADDED, {**node("a", "online", 0), "status": {}}),
        (-1, GPU_NODES, ADDED, {**node("b", "online", 0), "status": {}}),
        (-1, RUNTIME_TOPOLOGIES, ADDED, {**topology(UP, MULTI), "status": {}}),
        (0, RUNTIME_TOPOLOGIES, MODIFIED, topology(UP, MULTI)),
        (0, GPU_NODES, MODIFIED, node("a", "online", 0)),
        (0, GPU_NODES, MODIFIED, node("b", "online", 0)),
        (4, RUNTIME_TOPOLOGIES, MODIFIED, topology(DOWN, MULTI, pending="degraded_single_gpu")),
        (4, GPU_NODES, MODIFIED, node("b", "unexpected_down", 4)),
        (10, RUNTIME_TOPOLOGIES, MODIFIED, topology(DOWN, MULTI, DEGRADED)),
        (40, RUNTIME_TOPOLOGIES, MODIFIED, topology(DOWN, MULTI, DEGRADED, observed=40)),
        (50, GPU_NODES, DELETED, node("a", "online", 0)),
        (
            51,
            RUNTIME_TOPOLOGIES,
            MODIFIED,
            topology({"b": "unexpected_down"}, MULTI, DEGRADED, ("inventory_only", 51), observed=51),
        ),
    ]
    revisions = []
    for version, (seen, plural, event, resource) in enumerate(told, 1):
        resource["metadata"]["resourceVersion"] = str(version)
        revisions.append(Revision(plural, event, resource, seen))
    return revisions


GONE, DEGRADES, OBSERVED, LAST = 10, 8, 9, 11
"""Where things stand in the good history."""


def test_a_good_history_breaks_no_rule() -> None:
    assert check(history()) == []


def status(index: int, **change: object) -> Callable[[list[Revision]], None]:
    return lambda revisions: revisions[index].resource["status"].update(change)


def metadata(index: int, **change: object) -> Callable[[list[Revision]], None]:
    return lambda revisions: revisions[index].resource["metadata"].update(change)


def seen(index: int, second: float) -> Callable[[list[Revision]], None]:
    def change(revisions: list[Revision]) -> None:
        revisions[index] = Revision(
            revisions[index].plural, revisions[index].event, revisions[index].resource, second, revisions[index].gap
        )

    return change


def again(index: int, second: float, **change: object) -> Callable[[list[Revision]], None]:
    """Write an object's revision once more, at the end."""

    def append(revisions: list[Revision]) -> None:
        resource = copy.deepcopy(dict(revisions[index].resource))
        resource["metadata"]["resourceVersion"] = str(len(revisions) + 1)
        resource["status"].update(change)
        revisions.append(Revision(revisions[index].plural, MODIFIED, resource, second))

    return append


ENTRY = {"name": "a", "vramGb": 16, "status": "online"}
LIGHT = {"level": 1, "name": "LIGHT", "directives": ["force_llama"]}

BROKEN: dict[str, tuple[Rule, Callable[[list[Revision]], None]]] = {
    "a mode that changes inside the window by its stamps": (
        Rule.WINDOW,
        lambda revisions: revisions.__setitem__(
            DEGRADES,
            Revision(
                RUNTIME_TOPOLOGIES,
                MODIFIED,
                _renumbered(topology(DOWN, MULTI, ("degraded_single_gpu", 8)), DEGRADES),
                10,
            ),
        ),
    ),
    "a mode that changes inside the window by the recorder's clock": (Rule.WINDOW, seen(DEGRADES, 8.5)),
    "directives of another mode": (Rule.DEGRADATION, status(DEGRADES, degradation=LIGHT)),
    "a mode that the lists do not give": (Rule.MODE, status(6, pendingMode=None)),
    "a mode that waits for itself": (Rule.MODE, status(LAST, pendingMode="inventory_only")),
    "a card that was deleted long ago": (Rule.PARTITION, seen(GONE, 34)),
    "a card that was never there": (
        Rule.PARTITION,
        status(DEGRADES, unknownGpus=[{"name": "c", "status": "unknown"}]),
    ),
    "a card in two lists": (
        Rule.PARTITION,
        status(LAST, unknownGpus=[{"name": "b", "status": "unknown"}]),
    ),
    "a card in no list": (Rule.PARTITION, status(DEGRADES, unexpectedDown=[])),
    "a card in a list of another phase": (
        Rule.PARTITION,
        status(3, activeGpus=[ENTRY, {**ENTRY, "status": "unknown"}]),
    ),
    "a count that is no length": (
        Rule.COUNTS,
        status(3, counts={"total": 2, "active": 1, "inventory": 0, "unexpectedDown": 0, "unknown": 0}),
    ),
    "memory of cards that are not active": (Rule.COUNTS, status(LAST, activeVramGb=16)),
    "a transition that is lost": (
        Rule.TRANSITIONS,
        lambda revisions: revisions[LAST].resource["status"]["transitions"].pop(),
    ),
    "a transition without a change of mode": (
        Rule.TRANSITIONS,
        lambda revisions: (
            revisions[LAST]
            .resource["status"]["transitions"]
            .insert(0, {"from": "inventory_only", "to": "inventory_only", "at": stamp(51), "reason": "NoCardOnline"})
        ),
    ),
    "a change of mode without a transition": (Rule.TRANSITIONS, status(3, transitions=[])),
    "more transitions than twenty": (
        Rule.TRANSITIONS,
        status(3, transitions=[{"to": "multi_gpu", "from": "multi_gpu", "at": stamp(0)}] * 21),
    ),
    "a phase's time that moves alone": (Rule.TRANSITION_TIME, again(4, 60, lastTransitionTime=stamp(60))),
    "a condition's time that moves alone": (Rule.TRANSITION_TIME, again(5, 60, conditions=[condition(60)])),
    "an observation that is older than the last": (Rule.OBSERVED_AT, status(LAST, observedAt=stamp(39))),
    "a second writer of phases": (
        Rule.WRITER,
        metadata(7, managedFields=[{"manager": "kopf", "fieldsV1": {"f:status": {"f:phase": {}}}}]),
    ),
    "a write that changes nothing": (Rule.IDLE_WRITE, again(7, 60)),
    "a heartbeat that comes too often": (Rule.IDLE_WRITE, again(LAST, 52, observedAt=stamp(52))),
    "a finalizer": (Rule.TRACES, metadata(4, finalizers=["kopf.zalando.org/KopfFinalizerMarker"])),
    "an annotation of kopf": (Rule.TRACES, metadata(4, annotations={"kopf.dev/last-handled-configuration": "{}"})),
    "a card that was never judged": (Rule.SETTLED, metadata(7, generation=2)),
    "a card that is listed as it is not judged": (Rule.SETTLED, status(7, phase="unknown")),
}


def _renumbered(resource: Resource, index: int) -> Resource:
    resource["metadata"]["resourceVersion"] = str(index + 1)
    return resource


@pytest.mark.parametrize(("rule", "damage"), BROKEN.values(), ids=BROKEN)
def test_a_broken_history_is_found(rule: Rule, damage: Callable[[list[Revision]], None]) -> None:
    revisions = history()
    damage(revisions)
    assert rule in {breach.rule for breach in check(revisions)}


def test_every_rule_has_a_broken_history() -> None:
    assert {rule for rule, _ in BROKEN.values()} == set(Rule)


def test_a_breach_names_object_and_revision() -> None:
    revisions = history()
    metadata(4, finalizers=["hold"])(revisions)
    assert check(revisions) == [Breach(Rule.TRACES, "gpunodes/a at 5", "finalizer hold")]


def test_a_longer_lag_forgives_a_card_that_is_listed_after_its_deletion() -> None:
    revisions = history()
    revisions[GONE], revisions[OBSERVED] = revisions[OBSERVED], revisions[GONE]
    seen(GONE, 45)(revisions)
    seen(OBSERVED, 39)(revisions)
    assert check(revisions, Terms(lag_seconds=30)) == []
    assert {breach.rule for breach in check(revisions, Terms(lag_seconds=2))} == {Rule.PARTITION}
