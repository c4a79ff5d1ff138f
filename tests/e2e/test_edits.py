"""What people do with GpuNodes, and how little comes of it where nothing has changed."""

from lab.processes import wait_for
from lab.scene import Scene
from tests.e2e.views import (
    card,
    changes,
    manifests,
    nodes,
    phases,
    show,
    topology,
    wait_for_mode,
    wait_for_polls,
    wait_for_status,
    window,
)

SOON_SECONDS = 5
"""Long for a reaction that takes less than a second, and nothing beside the poll period of a minute."""


def test_many_cards_that_are_applied_at_once_are_one_change_and_then_no_write(scene: Scene) -> None:
    show(scene, "node-1")
    scene.kubectl.apply(manifests(window(0)))
    # Every reading that leaves its deadband is written at the next poll.
    operator = scene.operator(POLL_SECONDS="0.5", TELEMETRY_SECONDS="0").start()
    wait_for_status(scene, operator, mode="inventory_only")
    kinds = {
        "online": card(scene, "", "node-1"),
        "expected_offline": card(scene, "", "node-2", expectedOffline=True),
        "unexpected_down": card(scene, "", "node-2"),
        "unknown": card(scene, "", "node-1", target={"job": "no-such-job"}),
    }
    fleet = {f"{phase.replace('_', '-')}-{number}": phase for phase in kinds for number in range(8)}
    scene.kubectl.apply(manifests(*({**kinds[phase], "metadata": {"name": name}} for name, phase in fleet.items())))
    wait_for_mode(scene, operator, "multi_gpu", **fleet)
    counts = {"total": 32, "active": 8, "inventory": 8, "unexpectedDown": 8, "unknown": 8}
    settled = wait_for_status(scene, operator, counts=counts, activeVramGb=8 * 16)
    before = nodes(scene), topology(scene)

    wait_for_polls(scene, operator, 6)

    lists = ("activeGpus", "inventoryGpus", "unexpectedDown", "unknownGpus")
    assert {entry["name"]: entry["status"] for name in lists for entry in settled[name]} == fleet
    assert changes(settled) == [(None, "inventory_only"), ("inventory_only", "multi_gpu")]
    assert (nodes(scene), topology(scene)) == before
    for stored in (*before[0].values(), before[1]):
        assert "finalizers" not in stored["metadata"]
        assert list(stored["metadata"]["annotations"]) == ["kubectl.kubernetes.io/last-applied-configuration"]


def test_a_card_that_is_created_edited_or_deleted_shows_long_before_the_next_poll(scene: Scene) -> None:
    show(scene, "node-1")
    scene.kubectl.apply(manifests(window(0), card(scene, "rx9070", "node-1")))
    operator = scene.operator(POLL_SECONDS="60").start()
    wait_for_mode(scene, operator, "single_gpu", rx9070="online")

    def comes_soon(mode: str, **expected: str) -> None:
        wait_for(
            f"{mode} with {expected}",
            lambda: topology(scene)["status"]["mode"] == mode and phases(scene) == expected,
            SOON_SECONDS,
            operator,
        )

    scene.kubectl.apply(manifests(card(scene, "rx7900xt", "node-2")))
    comes_soon("degraded_single_gpu", rx9070="online", rx7900xt="unexpected_down")
    scene.kubectl.apply(manifests(card(scene, "rx7900xt", "node-2", expectedOffline=True)))
    comes_soon("degraded_single_gpu", rx9070="online", rx7900xt="expected_offline")
    scene.kubectl("delete", "gpunode", "rx7900xt")
    comes_soon("single_gpu", rx9070="online")
