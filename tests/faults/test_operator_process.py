"""However the operator ends, starts, or is treated, nothing is lost and nothing hangs."""

import asyncio
import json
import random
import signal
import time
from http import HTTPStatus
from typing import Any

import aiohttp
import kubernetes.aio as kubernetes
import pytest

from controller import kube, names, resources, watches
from controller.facts import ConditionStatus
from lab.processes import wait_for
from tests.faults.conftest import ALL, GROUP, ROOT, Stage, lasting
from tests.faults.proxy import Fault, Trouble

SOAK = pytest.mark.soak
ACCOUNT = "system:serviceaccount:gpu-topology:gpu-topology"
PEERING = "clusterkopfpeerings.kopf.dev"


def test_killed_ended_and_stopped_at_random_moments_nothing_is_lost(stage: Stage) -> None:
    chance = random.Random(6)  # noqa: S311 - chance, not a secret
    stage.start(a=True, b=True)
    for turn in range(int(lasting(6, 200))):
        stage.prometheus.up["b"] = bool(turn % 2)
        time.sleep(chance.uniform(0, 1.5))
        match turn % 3:
            case 0:
                stage.operator.kill()
                stage.operator.start()
            case 1:
                if stage.ends() != 0:
                    assert "Ending" not in stage.log().splitlines()[-1], "only a signal before the start may kill it"
                stage.operator.start()
            case _:
                stage.operator.signal(signal.SIGSTOP)
                time.sleep(chance.uniform(0, 1.5))
                stage.operator.signal(signal.SIGCONT)
    stage.prometheus.up["b"] = True
    stage.comes_to(30, a="online", b="online")
    stage.judge()


@pytest.mark.parametrize(
    "where", [pytest.param("Prometheus", marks=SOAK), "API server", pytest.param("window", marks=SOAK)]
)
def test_k22_it_ends_in_time_whatever_it_waits_for(stage: Stage, where: str) -> None:
    stage.start(a=True)
    match where:
        case "Prometheus":
            asked = len(stage.prometheus.asked)
            stage.prometheus.delay = 60
            wait_for("Prometheus is asked", lambda: len(stage.prometheus.asked) > asked, 10)
        case "API server":
            stage.proxy.faults = (Fault(Trouble.HANG),)
            stage.proxy.black_hole()
            stage.declare(b=True)
        case _:
            stage.prometheus.up["a"] = False
    assert stage.ends() == 0
    assert "Traceback" not in stage.log()


@SOAK
def test_k07_a_foreign_peer_of_kopf_pauses_nobody(stage: Stage) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    stage.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": PEERING},
            "spec": {
                "scope": "Cluster",
                "group": "kopf.dev",
                "names": {"kind": "ClusterKopfPeering", "plural": "clusterkopfpeerings"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
            },
        }
    )
    try:
        stage.kubectl("wait", "--for=condition=Established", f"crd/{PEERING}", "--timeout=30s")
        wait_for("peerings are served", lambda: stage.kubectl.succeeds("get", PEERING), 30)
        peer = {"priority": 0, "lifetime": 3600, "lastseen": "2999-01-01T00:00:00+00:00"}
        metadata = {"name": "default"}
        status = {"someone-else": peer}
        stage.apply({"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": metadata, "status": status})
        stage.start(a=True)
        stage.operator.kill()
        stage.prometheus.up["a"] = False
        stage.operator.start()
        stage.comes_to(15, a="unexpected_down")
    finally:
        stage.kubectl("delete", "crd", PEERING, "--timeout=30s")
    stage.judge()


@SOAK
def test_k09_objects_and_kinds_can_be_deleted_after_the_operator(stage: Stage) -> None:
    stage.start(a=True)
    stage.judge()
    assert stage.ends() == 0
    stage.delete("a")
    stage.kubectl("delete", "crd", *(f"{plural}.{GROUP}" for plural in ALL.split(",")), "--timeout=30s")
    stage.install()


@SOAK
def test_k11_a_card_with_a_large_annotation_is_judged(stage: Stage) -> None:
    stage.start(a=True)
    large = {"metadata": {"annotations": {"example.org/large": "x" * 200_000}}}
    body = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "GpuNode",
        "metadata": {"name": "b", **large["metadata"]},
        "spec": {"host": "b", "vramGb": 16},
    }
    stage.prometheus.up["b"] = True
    stage.kubectl("create", "--filename=-", stdin=json.dumps(body))
    stage.comes_to(30, a="online", b="online")
    stage.judge()


@SOAK
def test_k13_status_holds_what_the_schema_has_and_nobody_complains(stage: Stage) -> None:
    stage.start(a=True, b=False)
    topology = stage.kubectl.json("get", "runtimetopology", "cluster")["status"]
    node = stage.kubectl.json("get", "gpunode", "a")["status"]
    for stored, adapter in ((topology, resources.TOPOLOGY_STATUS), (node, resources.NODE_STATUS)):
        assert resources.dump_status(adapter.validate_python(stored)) == stored  # nothing pruned, nothing besides
    assert "inconsist" not in stage.log()
    stage.judge()


@SOAK
@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "refused"])
def test_k14_events_are_seen_where_people_look_and_hold_up_nothing(stage: Stage, allowed: bool) -> None:  # noqa: FBT001
    if not allowed:
        stage.proxy.faults = (Fault(HTTPStatus.FORBIDDEN, frozenset({"events"})),)
    stage.start(a=True)
    stage.prometheus.up["a"] = False
    stage.comes_to(30, a="unexpected_down")
    if allowed:
        wait_for(
            "describe shows it",
            lambda: "Phase changed from online" in stage.kubectl("describe", "gpunode", "a"),
            10,
            stage.operator,
        )
    else:
        wait_for("the log says it", lambda: "Cannot create events" in stage.log(), 10, stage.operator)
    stage.judge()


@SOAK
@pytest.mark.parametrize(
    ("verb", "resource", "said"),
    [
        ("patch", "gpunodes/status", "Cannot patch gpunodes/status of a: 403"),
        ("create", "runtimetopologies", "Cannot create runtimetopologies cluster: 403"),
    ],
)
def test_k16_a_missing_right_is_named_once_and_asked_for_no_more_than_once_a_poll(
    stage: Stage, verb: str, resource: str, said: str
) -> None:
    role = stage.kubectl.json("get", "clusterrole", "gpu-topology")
    for rule in role["rules"]:
        if resource in rule["resources"]:
            rule["verbs"].remove(verb)
    try:
        stage.apply(role)
        stage.declare(a=True)
        stage.operator.start()
        since = time.monotonic()
        wait_for("the log names it", lambda: said in stage.log(), 30, stage.operator)
        time.sleep(3)
        requests = stage.proxy.seen(resource, verb, since)
        assert stage.log().count(said) == 1
        assert len(requests) <= (time.monotonic() - since) + 2
    finally:
        stage.kubectl("apply", f"--filename={ROOT / 'manifests' / 'base' / 'rbac.yaml'}")
    stage.comes_to(30, a="online")
    stage.judge()


def test_k19_every_client_is_the_service_account(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(stage.kubeconfig))
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    async def ask() -> list[str]:
        configuration = await kube.connect()
        async with kubernetes.client.ApiClient(configuration) as client:
            api: Any = kubernetes.client.AuthenticationV1Api(client)
            review = await api.create_self_subject_review(body)
        login = await watches.login(configuration)
        url = f"{login.server}/apis/authentication.k8s.io/v1/selfsubjectreviews"
        async with (
            aiohttp.ClientSession(headers=login.as_http_headers()) as session,
            session.post(url, json=body, ssl=login.as_ssl_context()) as answer,
        ):
            kopfs = await answer.json()
        return [review.status.user_info.username, kopfs["status"]["userInfo"]["username"]]

    assert asyncio.run(ask()) == [ACCOUNT, ACCOUNT]


@SOAK
def test_k20_a_token_that_is_replaced_on_disk_is_taken_up_and_one_that_is_rejected_changes_nothing(
    stage: Stage,
) -> None:
    config = json.loads(stage.kubeconfig.read_text())
    user = config["users"][0]["user"]
    old, file = user.pop("token"), stage.folder / "token"
    user["tokenFile"] = str(file)
    file.write_text(old)
    stage.kubeconfig.write_text(json.dumps(config))
    stage.start(a=True, b=True)
    mode = stage.mode()
    stage.proxy.faults = (Fault(HTTPStatus.UNAUTHORIZED, token=old),)
    stage.proxy.cut()
    stage.declare(c=False)
    time.sleep(lasting(3, 60))
    assert stage.operator.running
    file.write_text(stage.kubectl("create", "token", "gpu-topology", "--namespace=gpu-topology").strip())
    stage.comes_to(30, a="online", b="online", c="unexpected_down")
    wait_for("kopf watches with the new one", stage.proxy.watched, 60, stage.operator)
    assert stage.mode() == mode
    stage.judge()


@SOAK
def test_k28_a_foreign_condition_survives_and_a_conflict_is_read_again(stage: Stage) -> None:
    stage.start(a=True)
    foreign = {
        "type": "Maintained",
        "status": "True",
        "reason": "ByHand",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    held = stage.kubectl.json("get", "gpunode", "a")["status"]["conditions"]
    patch = json.dumps({"status": {"conditions": [*held, foreign]}})
    stage.kubectl("patch", "gpunode", "a", "--subresource=status", "--type=merge", f"--patch={patch}")
    stage.prometheus.up["a"] = False
    stage.comes_to(30, a="unexpected_down")
    conditions = {one["type"]: one for one in stage.kubectl.json("get", "gpunode", "a")["status"]["conditions"]}
    assert conditions["Maintained"] == foreign
    assert conditions[names.Condition.ONLINE]["status"] == ConditionStatus.FALSE
    stage.judge()
