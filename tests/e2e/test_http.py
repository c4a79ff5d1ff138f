"""What the operator says over HTTP, asked of the console script on real servers."""

import json
import socket

import httpx

from lab.processes import wait_for
from lab.scene import Scene
from tests.e2e.views import card, manifests, show, wait_for_mode, window


def test_the_snapshot_and_each_change_of_it_are_served_beside_the_health(scene: Scene) -> None:
    listen = f"{scene.network}42:8080"
    show(scene, "node-1")
    cards = [card(scene, "rx9070", "node-1", model="RX9070"), card(scene, "rx7900xt", "node-2", expectedOffline=True)]
    scene.kubectl.apply(manifests(window(0), *cards))
    operator = scene.operator(LISTEN=listen).start()
    wait_for_mode(scene, operator, "degraded_single_gpu", rx9070="online", rx7900xt="expected_offline")
    with httpx.Client(base_url=f"http://{listen}", trust_env=False, timeout=20) as http:
        snapshot = http.get("/topology").raise_for_status().json()
        assert snapshot["mode"] == "degraded_single_gpu"
        assert [entry["name"] for entry in snapshot["active_gpus"]] == ["RX9070"]
        assert wait_for("readiness", lambda: http.get("/readyz").json()["ready"], 10, operator)
        assert http.get("/healthz").json()["alive"] is True
        with http.stream("GET", "/topology/events") as response:
            modes = (
                json.loads(line.removeprefix("data: "))["mode"]
                for line in response.iter_lines()
                if line.startswith("data: ")
            )
            assert next(modes) == "degraded_single_gpu"
            show(scene, "node-1", "node-2")
            assert next(mode for mode in modes if mode != "degraded_single_gpu") == "multi_gpu"


def test_an_address_that_is_taken_ends_the_operator_with_one_line(scene: Scene) -> None:
    with socket.create_server((f"{scene.network}43", 0)) as taken:
        address = f"{scene.network}43:{taken.getsockname()[1]}"
        operator = scene.operator(LISTEN=address).start()
        assert operator.wait(20) == 1
    told = [line for line in operator.log.read_text().splitlines() if line.startswith("gpu-topology: ")]
    assert told == [f"gpu-topology: cannot listen on {address}, choose another --listen: Address already in use"]
