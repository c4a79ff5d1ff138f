"""The manifests as a person applies them."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import controller
from tests.api.kubectl import Api

ROOT = Path(__file__).parents[2]
BASE = ROOT / "manifests" / "base"
SAMPLES = sorted((ROOT / "manifests" / "samples").glob("*.yaml"))
ACCOUNT = "system:serviceaccount:gpu-topology:gpu-topology"

RIGHTS = {
    *(f"{verb} runtime.ialab.dev/gpunodes" for verb in ("get", "list", "watch")),
    *(f"{verb} runtime.ialab.dev/gpunodes/status" for verb in ("get", "patch")),
    *(f"{verb} runtime.ialab.dev/runtimetopologies" for verb in ("get", "list", "watch", "create")),
    *(f"{verb} runtime.ialab.dev/runtimetopologies/status" for verb in ("get", "patch")),
    "create /events",
}


@pytest.fixture(scope="module")
def namespace(api: Api) -> None:
    """Make the namespace first: a dry run of the base cannot find what it has only pretended to create."""
    api.kubectl("apply", "--server-side", f"--filename={BASE / 'namespace.yaml'}")


@pytest.fixture(scope="module")
def base(api: Api) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(api.kubectl("kustomize", str(BASE))))


def one(base: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (manifest for manifest in base if manifest["kind"] == kind)
    return found


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.name for sample in SAMPLES])
def test_a_sample_is_taken(api: Api, sample: Path) -> None:
    api.kubectl("apply", "--warnings-as-errors", "--server-side", "--dry-run=server", f"--filename={sample}")


@pytest.mark.usefixtures("namespace")
def test_the_base_is_taken_without_a_warning(api: Api) -> None:
    api.kubectl("apply", "--warnings-as-errors", "--server-side", "--dry-run=server", f"--kustomize={BASE}")


@pytest.mark.usefixtures("namespace")
def test_the_pod_meets_the_restricted_standard(api: Api, base: list[dict[str, Any]]) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "operator", "namespace": "gpu-topology"},
        "spec": one(base, "Deployment")["spec"]["template"]["spec"],
    }

    api.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(pod))


def test_there_is_never_a_second_pod(base: list[dict[str, Any]]) -> None:
    deployment = one(base, "Deployment")["spec"]

    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})


def test_the_image_is_of_this_version(base: list[dict[str, Any]]) -> None:
    (container,) = one(base, "Deployment")["spec"]["template"]["spec"]["containers"]

    assert container["image"] == f"gpu-topology:{controller.__version__}"


def test_the_base_brings_the_crds(base: list[dict[str, Any]]) -> None:
    names = {manifest["metadata"]["name"] for manifest in base if manifest["kind"] == "CustomResourceDefinition"}

    assert names == {"gpunodes.runtime.ialab.dev", "runtimetopologies.runtime.ialab.dev"}


@pytest.mark.usefixtures("namespace")
def test_the_operator_has_no_right_that_it_does_not_need(api: Api) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"},
    }
    api.kubectl("apply", "--server-side", f"--filename={BASE / 'rbac.yaml'}")

    # Validation at kubectl's side would need the right to read CRDs.
    as_operator = (f"--as={ACCOUNT}", "--validate=false")
    answer = api.kubectl("create", *as_operator, "--filename=-", "--output=json", stdin=json.dumps(review))

    assert {
        f"{verb} {group}/{resource}"
        for rule in json.loads(answer)["status"]["resourceRules"]
        for verb, group, resource in itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"])
        if group not in {"authentication.k8s.io", "authorization.k8s.io"}  # anyone may ask who they are
    } == RIGHTS


def test_applying_a_sample_twice_changes_nothing(api: Api) -> None:
    def version() -> str:
        sample = api.kubectl(
            "apply", "--server-side", "--filename=-", "--output=jsonpath={.metadata.resourceVersion}", stdin=body
        )
        return sample.strip()

    body = (ROOT / "manifests" / "samples" / "runtimetopology.yaml").read_text().replace("cluster", "applied-twice")
    try:
        version()  # the first update stores the status that the object has shown by default until then
        first, second = version(), version()
        difference = api.kubectl("diff", "--server-side", "--filename=-", stdin=body)
    finally:
        api.kubectl("delete", "runtimetopology", "applied-twice", "--ignore-not-found")

    assert (second, difference) == (first, "")


def test_c16_applying_the_crds_either_way_twice_changes_nothing(api: Api) -> None:
    crds = f"--kustomize={ROOT / 'crds'}"
    versions = ("get", "crd", "--output=jsonpath={.items[*].metadata.resourceVersion}")

    for way in ((), ("--server-side",)):
        api.kubectl("apply", crds, *way)
        settled = api.kubectl(*versions)
        api.kubectl("apply", crds, *way)
        assert api.kubectl(*versions) == settled, way
