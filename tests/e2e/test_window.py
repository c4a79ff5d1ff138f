"""The anti-flapping window on a wall clock: what a pass at its end does, with a poll that comes far too late for it."""

from datetime import timedelta

from lab.scene import Scene
from tests.e2e.views import card, changes, events, manifests, show, status, time, topology, wait_for_status, window

POLL = {"POLL_SECONDS": "120"}
"""Longer than every wait here: what is seen, no poll has brought."""


def test_a_restart_in_the_middle_of_a_window_neither_shortens_it_nor_misses_its_end(scene: Scene) -> None:
    show(scene, "node-1", "node-2")
    scene.kubectl.apply(manifests(window(8), card(scene, "rx9070", "node-1")))
    operator = scene.operator(**POLL).start()
    first = wait_for_status(scene, operator, mode="single_gpu")
    events(scene, topology(scene), 1)
    scene.kubectl.apply(manifests(card(scene, "rx7900xt", "node-2")))
    waiting = wait_for_status(scene, operator, pendingMode="multi_gpu")
    operator.kill()
    assert status(scene)["mode"] == "single_gpu"
    operator.start()

    settled = wait_for_status(scene, operator, mode="multi_gpu")

    assert time(waiting["holdUntil"]) >= time(first["lastTransitionTime"]) + timedelta(seconds=8)
    # What the first process promised from its own clock, rounded up, the second keeps from the stamp, rounded down.
    assert time(settled["lastTransitionTime"]) >= time(waiting["holdUntil"])
    assert {"pendingMode", "holdUntil"}.isdisjoint(settled)
    assert changes(settled) == [(None, "single_gpu"), ("single_gpu", "multi_gpu")]
    assert settled["transitions"][1] == first["transitions"][0]
    assert events(scene, topology(scene), 2) == [
        "Mode started as single_gpu, degradation NORMAL 0: 1 of 1 cards online",
        "Mode changed from single_gpu to multi_gpu, degradation NORMAL 0: 2 of 2 cards online",
    ]


def test_at_the_windows_end_the_mode_follows_from_the_facts_of_that_moment(scene: Scene) -> None:
    show(scene, "node-1")
    scene.kubectl.apply(manifests(window(5), card(scene, "rx9070", "node-1")))
    operator = scene.operator(**POLL).start()
    first = wait_for_status(scene, operator, mode="single_gpu")
    scene.kubectl.apply(manifests(card(scene, "second", "node-1")))
    wait_for_status(scene, operator, mode="single_gpu", pendingMode="multi_gpu")
    scene.kubectl("delete", "gpunode", "second")
    back = wait_for_status(scene, operator, mode="single_gpu", pendingMode=None)
    assert "holdUntil" not in back
    scene.kubectl.apply(manifests(card(scene, "rx7900xt", "node-2")))
    waiting = wait_for_status(scene, operator, mode="single_gpu", pendingMode="degraded_single_gpu")

    settled = wait_for_status(scene, operator, mode="degraded_single_gpu", pendingMode=None)

    assert changes(settled) == [(None, "single_gpu"), ("single_gpu", "degraded_single_gpu")]
    assert time(settled["lastTransitionTime"]) >= time(first["lastTransitionTime"]) + timedelta(seconds=5)
    # Both are whole seconds: holdUntil is rounded up, the time of the change is rounded down.
    early = time(waiting["holdUntil"]) - time(settled["lastTransitionTime"])
    assert timedelta(seconds=-1) <= early <= timedelta(seconds=1)
    assert "holdUntil" not in settled
