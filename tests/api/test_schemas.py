"""The two CRDs as texts: what every field must have, and what kubectl makes of it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.kubectl import Api

CRDS = Path(__file__).parents[2] / "crds"
KINDS = {"GpuNode": "gpunodes.yaml", "RuntimeTopology": "runtimetopologies.yaml"}
SCALARS = {"string", "integer", "number", "boolean"}

Schema = Mapping[str, Any]


def root(kind: str) -> Schema:
    crd = yaml.safe_load((CRDS / KINDS[kind]).read_text())
    (version,) = crd["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def walk(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Yield every field, item and map value with its path, in the order of the file."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from walk(field, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from walk(schema["additionalProperties"], f"{path}{{}}")


def every(kind: str, type_: str) -> Iterator[tuple[str, Schema]]:
    return ((path, field) for path, field in walk(root(kind), kind) if field["type"] == type_)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_c10_every_field_has_a_description(kind: str) -> None:
    assert [path for path, field in walk(root(kind), kind) if not field.get("description", "").endswith(".")] == []


def test_c10_no_field_takes_what_it_does_not_name(kind: str) -> None:
    loose = {"x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"}

    assert [path for path, field in walk(root(kind), kind) if loose & field.keys()] == []


def test_every_object_names_its_fields(kind: str) -> None:
    assert [
        path for path, field in every(kind, "object") if not {"properties", "additionalProperties"} & field.keys()
    ] == []


def test_every_required_field_exists(kind: str) -> None:
    for path, field in every(kind, "object"):
        assert set(field.get("required", ())) <= set(field.get("properties", ())), path


def test_c07_every_text_is_bounded(kind: str) -> None:
    bounds = {"maxLength", "enum"}

    assert [
        path
        for path, field in every(kind, "string")
        if not bounds & field.keys() and field.get("format") != "date-time"
    ] == []


def test_c07_every_list_is_bounded_and_says_how_it_merges(kind: str) -> None:
    needed = {"maxItems", "x-kubernetes-list-type"}

    assert [path for path, field in every(kind, "array") if not needed <= field.keys()] == []


def test_c07_every_map_is_bounded(kind: str) -> None:
    maps = [(path, field) for path, field in every(kind, "object") if "additionalProperties" in field]

    assert [path for path, field in maps if "maxProperties" not in field] == []


def test_every_number_is_bounded(kind: str) -> None:
    numbers = [*every(kind, "integer"), *every(kind, "number")]
    open_ended = [path for path, field in numbers if not {"minimum", "maximum"} <= field.keys()]

    assert [path for path in open_ended if not path.endswith("observedGeneration")] == []


def test_every_boolean_says_what_true_means(kind: str) -> None:
    assert [path for path, field in every(kind, "boolean") if "true:" not in field["description"]] == []


def test_a_default_is_named_in_the_description(kind: str) -> None:
    fields = [(path, field) for path, field in walk(root(kind), kind) if "default" in field]

    assert [path for path, field in fields if "default" not in field["description"]] == []


def test_every_rule_has_a_message(kind: str) -> None:
    rules = [rule for _, field in walk(root(kind), kind) for rule in field.get("x-kubernetes-validations", ())]

    assert [rule["rule"] for rule in rules if not rule.get("message")] == []


def test_conditions_have_the_standard_shape(kind: str) -> None:
    conditions = root(kind)["properties"]["status"]["properties"]["conditions"]
    fields = {"type", "status", "observedGeneration", "lastTransitionTime", "reason", "message"}

    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert conditions["items"]["properties"].keys() == fields
    assert set(conditions["items"]["required"]) == fields - {"observedGeneration"}


def test_the_lists_of_cards_differ_in_what_they_must_have_alone() -> None:
    status = root("RuntimeTopology")["properties"]["status"]["properties"]
    active, inventory, down, unknown = (
        status[name]["items"] for name in ("activeGpus", "inventoryGpus", "unexpectedDown", "unknownGpus")
    )
    readings = {"gpuTempC", "gpuLoadPct", "gpuPowerW", "gpuFanRpm", "gpuFanPct"}

    assert down == inventory
    assert {*inventory["properties"]} == {*unknown["properties"]} == {*active["properties"]} - readings
    assert {*inventory["required"]} == {*active["required"]} == {*inventory["properties"]}
    assert {*unknown["required"]} == {"name", "model", "status", "expectedOffline"}


def test_c10_kubectl_explains_every_field(api: Api, kind: str) -> None:
    told = api.kubectl("explain", kind.lower(), "--recursive")
    names = {path.rpartition(".")[2].rstrip("[]{}") for path, _ in walk(root(kind), kind)} - {kind}

    assert [name for name in sorted(names) if not re.search(rf"^\s+{name}\s+<", told, re.MULTILINE)] == []


@pytest.mark.parametrize(
    ("path", "sentence"),
    {
        "gpunode": "GpuNode declares one GPU card",
        "gpunode.spec.vramGb": "Size of the card's memory in GB",
        "gpunode.spec.model": "the object's own name (metadata.name) is used",
        "gpunode.spec.expectedOffline": "true: being off is planned",
        "gpunode.status.phase": "unexpected_down: it is off, and that is a fault",
        "runtimetopology": "RuntimeTopology says which GPU cards can serve now",
        "runtimetopology.spec.stabilizationSeconds": "(default 30)",
        "runtimetopology.status.degradation.directives": "block_heavy_routes: refuse heavy routes",
    }.items(),
)
def test_kubectl_explains(api: Api, path: str, sentence: str) -> None:
    assert sentence in " ".join(api.kubectl("explain", path).split())


def test_c07_the_crds_are_taken_without_a_warning(api: Api) -> None:
    api.kubectl("apply", "--warnings-as-errors", "--dry-run=server", "--server-side", f"--kustomize={CRDS}")
