"""The commands on a real API server: moving in from the old file, and the live state at a glance."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller import manifests, names, resources
from controller.__main__ import main
from controller.facts import GpuNode, Instant, Policy, RuntimeTopology, Sample, Survey, Target, TargetHealth
from controller.plan import Plan
from controller.profiles import built_in
from lab import tools
from lab.controlplane import ControlPlane
from lab.exporters import State
from lab.processes import Process, wait_for
from lab.scene import Scene
from tests.conftest import Cluster

NETWORK = "127.1.12."
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCRIPTS = Path(sys.executable).parent
READINGS = {"gpu_temp_c", "gpu_load_pct", "gpu_power_w", "gpu_fan_rpm"}
OLD_FILE = {
    "mode": "degraded_single_gpu",
    "active_gpus": [
        {"name": "RX9070", "host": f"{NETWORK}50", "vram_gb": 16, "status": "online", "expected_offline": False}
    ],
    "inventory_gpus": [
        {
            "name": "RX7900XT",
            "host": f"{NETWORK}60",
            "vram_gb": 20,
            "status": "expected_offline",
            "expected_offline": True,
        }
    ],
    "unexpected_down": [],
}


@pytest.fixture(scope="module")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    Scene(tmp_path_factory.mktemp("installed"), cluster.plane.kubeconfig, network=NETWORK).install()
    return cluster


@pytest.fixture
def scene(installed: Cluster, tmp_path: Path) -> Iterator[Scene]:
    """Put the lab together, with nothing in it started yet."""
    scene = Scene(tmp_path / "scene", installed.plane.kubeconfig, network=NETWORK)
    yield scene
    scene.stop()
    scene.kubectl("delete", "gpunodes,runtimetopologies", "--all")


def judge(scene: Scene) -> Plan:
    """Return what an operator would say of the lab's cards while no target is known, and have the cluster say it."""
    file = scene.folder / "samples.yaml"
    file.write_text(scene.samples)
    plan = Plan(manifests.read([str(file)]), Policy(profiles=built_in()))
    plan.take_in(Survey((), ()), Instant(START, 0))
    scene.kubectl.apply(scene.samples)
    publish(scene, plan)
    return plan


def publish(scene: Scene, plan: Plan) -> None:
    """Write what an operator says into status."""
    judged: tuple[RuntimeTopology | GpuNode, ...] = (plan.topology, *plan.nodes)
    for one in judged:
        assert one.status
        kind = names.GPU_NODE if isinstance(one, GpuNode) else names.RUNTIME_TOPOLOGY
        patch = json.dumps({"status": resources.dump_status(one.status)})
        scene.kubectl("patch", kind, one.name, "--subresource=status", "--type=merge", f"--patch={patch}")


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    installed: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return what runs a command and returns its exit code, its answer, and what it complains about."""
    monkeypatch.setenv("KUBECONFIG", str(installed.plane.kubeconfig))

    def run(*words: str, old: object = None) -> tuple[int, str, str]:
        file = tmp_path / "old.json"
        file.write_text(json.dumps(old))
        code = main([*words, str(file)] if old else words)
        return code, *capsys.readouterr()

    return run


def test_what_is_imported_from_the_old_file_is_what_a_live_cluster_exports(scene: Scene, run: Command) -> None:
    rx9070, rx7900xt = "gpunode.runtime.ialab.dev/rx9070", "gpunode.runtime.ialab.dev/rx7900xt"
    assert run("import", "--apply", old=OLD_FILE) == (0, f"{rx7900xt} created\n{rx9070} created\n", "")
    larger = json.loads(json.dumps(OLD_FILE).replace("20", "24"))
    changed = f"{rx7900xt} configured\n{rx9070} unchanged\n"
    assert run("import", "--apply", old=larger) == (0, changed, "")
    assert run("import", "--apply", old=OLD_FILE) == (0, changed, "")

    scene.hosts["node-1"].switch(State.UP)
    scene.watch_hosts()
    scene.prometheus.start()
    operator = scene.operator().start()

    def exported() -> dict[str, list[dict[str, object]]] | None:
        code, snapshot, _ = run("export")
        state: dict[str, list[dict[str, object]]] = json.loads(snapshot or "{}")
        return state if code == 0 and state["active_gpus"] and state["inventory_gpus"] else None

    state = wait_for("the cards are judged", exported, 30, operator)
    readings = {name: state["active_gpus"][0].pop(name) for name in READINGS}
    assert state == OLD_FILE
    assert all(isinstance(value, float | int) for value in readings.values()), readings


def test_an_import_that_the_api_server_refuses_in_part_applies_nothing(scene: Scene, run: Command) -> None:
    scene.kubectl.apply(scene.samples.replace("vramGb: 16", "vramGb: 32").replace("name: rx7900xt", "name: other"))
    code, answer, complaint = run("import", "--apply", old=OLD_FILE)
    assert (code, answer) == (1, "")
    refused, nothing = complaint.splitlines()
    assert refused.startswith("gpu-topology: Cannot apply gpunodes rx9070: 409 Conflict: Apply failed with 1 conflict")
    assert refused.endswith(".spec.vramGb")
    assert nothing == "gpu-topology: nothing is applied"
    assert scene.kubectl("get", "gpunodes", "--output=name").split() == [
        "gpunode.runtime.ialab.dev/other",
        "gpunode.runtime.ialab.dev/rx9070",
    ]


def test_kubectl_reads_from_an_import_what_stands_in_the_file(scene: Scene, run: Command) -> None:
    models = ["1e3", "0o17", "y", "no", "~", "null", "1_0", "2026-01-01", "é: #", "'\"", "显卡\u202e!", "[x]", "-"]
    cards = [{"name": name, "host": f"{index}e3", "vram_gb": 16, "n": name} for index, name in enumerate(models)]
    code, printed, _ = run("import", old={"inventory_gpus": cards})
    scene.kubectl.apply(printed)
    stored = scene.kubectl.json("get", "gpunodes")["items"]
    read = [
        (item["spec"]["model"], item["spec"]["host"], item["metadata"]["annotations"]["runtime.ialab.dev/imported.n"])
        for item in stored
    ]
    assert (code, sorted(read)) == (0, sorted((card["name"], card["host"], card["name"]) for card in cards))


def test_a_live_state_looks_as_its_plan_did_and_its_exit_code_says_how_bad_it_is(scene: Scene, run: Command) -> None:
    plan = judge(scene)
    table = f"{plan.show('table')}\n"
    assert "inventory_only\n" in table
    assert run("get") == (0, table, "")
    assert run("get", "--fail-on=LIGHT") == (3, table, "")
    assert run("export") == (0, f"{plan.show('snapshot')}\n", "")
    code, printed, complaint = run("get", "--output=json")
    assert (code, json.loads(printed), complaint) == (0, scene.kubectl.json("get", "runtimetopology", "cluster"), "")
    assert run("get", "--topology=other") == (4, "", "gpu-topology: there is no RuntimeTopology 'other'\n")

    plugin = subprocess.run(
        [tools.kubectl(), "gpu-topology", "get"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ
        | {"KUBECONFIG": str(scene.kubectl.kubeconfig), "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"},
    )
    assert plugin.stdout == table


def test_a_topology_that_nobody_has_judged_is_no_state(scene: Scene, run: Command) -> None:
    scene.kubectl.apply(scene.samples)
    expected = "gpu-topology: RuntimeTopology 'cluster' has no mode yet: no operator has judged it\n"
    assert run("get", "--fail-on=HEAVY") == (4, "", expected)


def test_a_cluster_that_cannot_be_asked_is_said_in_one_line(
    scene: Scene, run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = json.loads(scene.kubectl.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://{NETWORK}99:6443"
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(elsewhere))
    for words, old in ((["get"], None), (["watch"], None), (["export"], None), (["import", "--apply"], OLD_FILE)):
        done = run(*words, old=old)
        assert (done[:2], done[2].count("\n")) == ((1, ""), 1)
        assert done[2].startswith("gpu-topology: Cannot list ")


def test_a_watch_shows_each_change_over_a_restart_of_the_api_server(tmp_path: Path) -> None:
    with ControlPlane.start(tmp_path / "control-plane") as plane:
        scene = Scene(tmp_path / "scene", plane.kubeconfig, network=NETWORK)
        scene.install()
        watch_over_a_restart(plane, scene, judge(scene), tmp_path / "watch.log")


def watch_over_a_restart(plane: ControlPlane, scene: Scene, plan: Plan, log: Path) -> None:
    watch = Process([SCRIPTS / "gpu-topology", "watch"], log, env={"KUBECONFIG": str(scene.kubectl.kubeconfig)}).start()
    first = f"{plan.show('table')}\n"
    wait_for("the state", lambda: log.read_text() == first, 10, watch)

    plane.crash_api_server()
    wait_for("a word about the API server", lambda: "gpu-topology: Cannot " in log.read_text(), 10, watch)
    plane.start_api_server()
    url, labels = f"http://{NETWORK}50:9183/metrics", {"job": "gpu", "instance": f"{NETWORK}50:9183"}
    target = Target(url, f"{NETWORK}50", 9183, labels, TargetHealth.UP, "")
    plan.take_in(Survey((target,), (Sample("gpu_temp_c", labels, 32.0),)), Instant(START + timedelta(seconds=60), 60))
    publish(scene, plan)
    second = f"\n{plan.show('table')}\n"
    assert "degraded_single_gpu\n" in second
    wait_for("the change", lambda: log.read_text().endswith(second), 30, watch)

    watch.signal(signal.SIGINT)
    assert watch.wait(10) == 130
    words = log.read_text().removeprefix(first)
    assert "Traceback" not in words
    assert words.endswith(second)
