"""The CRDs and the operator's own types say the same: names, types, enums, what is required, bounds."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from controller import readings, resources

CRDS = Path(__file__).parents[2] / "crds"
FILES = {"GpuNode": "gpunodes.yaml", "RuntimeTopology": "runtimetopologies.yaml"}
ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "GpuNode.spec": resources.NODE_SPEC,
    "GpuNode.status": resources.NODE_STATUS,
    "RuntimeTopology.spec": resources.TOPOLOGY_SPEC,
    "RuntimeTopology.status": resources.TOPOLOGY_STATUS,
}

KNOWN_WHERE_THE_SPEC_IS_READABLE = {
    f"RuntimeTopology.status.{list_}[].{field}"
    for list_ in ("activeGpus", "inventoryGpus", "unexpectedDown")
    for field in ("host", "vramGb")
}
"""Cards whose spec cannot be read are in unknownGpus alone, so elsewhere these two are never missing."""

BOUNDS = {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}

Schema = Mapping[str, Any]


def declared(path: str) -> Schema:
    """Return what the CRD says of a kind's spec or status."""
    kind, _, part = path.partition(".")
    crd = yaml.safe_load((CRDS / FILES[kind]).read_text())
    (version,) = crd["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]["properties"][part]
    return schema


def known(path: str) -> Schema:
    """Return what the operator's type says of it, spelled as the CRD spells it."""
    schema = ADAPTERS[path].json_schema(by_alias=True)
    return resolved(schema, schema.get("$defs", {}))


def resolved(schema: Schema, definitions: Schema) -> Schema:
    if "$ref" in schema:
        return resolved(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        (choice,) = (choice for choice in schema["anyOf"] if choice.get("type") != "null")
        return resolved(choice, definitions)
    result = dict(schema)
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if "properties" in schema:
        result["properties"] = {name: resolved(field, definitions) for name, field in schema["properties"].items()}
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), Mapping):
            result[part] = resolved(schema[part], definitions)
    return result


def pairs(path: str, crd: Schema, ours: Schema) -> Iterator[tuple[str, Schema, Schema]]:
    """Yield whatever both name, with its path."""
    yield path, crd, ours
    for name in sorted(crd.get("properties", {}).keys() & ours.get("properties", {}).keys()):
        yield from pairs(f"{path}.{name}", crd["properties"][name], ours["properties"][name])
    for part, sign in (("items", "[]"), ("additionalProperties", "{}")):
        if part in crd and part in ours:
            yield from pairs(f"{path}{sign}", crd[part], ours[part])


@pytest.fixture(params=ADAPTERS)
def both(request: pytest.FixtureRequest) -> list[tuple[str, Schema, Schema]]:
    path = str(request.param)
    return list(pairs(path, declared(path), known(path)))


Both = list[tuple[str, Schema, Schema]]


def test_names(both: Both) -> None:
    theirs = {f"{path}.{name}" for path, crd, _ in both for name in crd.get("properties", ())}
    ours = {f"{path}.{name}" for path, _, known_ in both for name in known_.get("properties", ())}

    assert theirs == ours


def test_types(both: Both) -> None:
    assert {path: crd["type"] for path, crd, _ in both} == {path: ours["type"] for path, _, ours in both}


def test_lists_and_maps_hold_something(both: Both) -> None:
    for path, crd, ours in both:
        assert {"items", "additionalProperties"} & crd.keys() <= ours.keys(), path


def test_enums(both: Both) -> None:
    free = {"reason", "type"}  # the operator knows fewer words than the CRD allows for what is added later
    enums = [(path, crd, ours) for path, crd, ours in both if path.rpartition(".")[2] not in free]

    assert {path: set(crd.get("enum", ())) for path, crd, _ in enums} == {
        path: set(ours.get("enum", ())) for path, _, ours in enums
    }


def test_times(both: Both) -> None:
    for path, crd, ours in both:
        assert (crd.get("format") == "date-time") == (ours.get("format") == "date-time"), path


def test_defaults(both: Both) -> None:
    scalars = [(path, crd, ours) for path, crd, ours in both if path.partition(".")[2].startswith("spec.")]

    for path, crd, ours in scalars:
        if crd["type"] != "object":
            assert crd.get("default") == ours.get("default"), path


def test_bounds_that_both_state_are_the_same(both: Both) -> None:
    for path, crd, ours in both:
        for bound in BOUNDS & crd.keys() & ours.keys():
            assert crd[bound] == ours[bound], (path, bound)


def test_the_operator_reads_every_spec_that_the_api_server_takes() -> None:
    for path in ("GpuNode.spec", "RuntimeTopology.spec"):
        for at, crd, ours in pairs(path, declared(path), known(path)):
            assert BOUNDS & ours.keys() <= crd.keys(), at
            assert set(ours.get("required", ())) <= set(crd.get("required", ())), at


def test_the_api_server_takes_every_status_that_the_operator_writes() -> None:
    for path in ("GpuNode.status", "RuntimeTopology.status"):
        for at, crd, ours in pairs(path, declared(path), known(path)):
            missing = set(crd.get("required", ())) - written(ours)
            assert {f"{at}.{name}" for name in missing} <= KNOWN_WHERE_THE_SPEC_IS_READABLE, at


def written(ours: Schema) -> set[str]:
    """Return the fields that are never left out: required, or with a default that is not None."""
    return {
        name
        for name, field in ours.get("properties", {}).items()
        if name in ours.get("required", ()) or field.get("default") is not None
    }


@pytest.mark.parametrize("reading", readings.BOUNDS)
def test_every_reading_that_the_operator_believes_fits(reading: str) -> None:
    low, high, _ = readings.BOUNDS[reading]
    status = declared("GpuNode.status")["properties"]
    entry = declared("RuntimeTopology.status")["properties"]["activeGpus"]["items"]["properties"]

    for fields in (status, entry):
        if bounds := fields.get(to_camel(reading)):
            assert bounds["minimum"] <= low <= high <= bounds["maximum"]
