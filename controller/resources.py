"""The two custom resources as JSON, in the camel case of the API."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from controller import facts, names
from controller.facts import GpuNode, RuntimeTopology, RuntimeTopologyStatus

Json = Mapping[str, Any]
Status = TypeVar("Status", facts.GpuNodeStatus, facts.RuntimeTopologyStatus)


def _alias(field: str) -> str:
    return to_camel(field.rstrip("_"))  # `from` is a keyword of Python


_STATUS = ConfigDict(alias_generator=_alias, extra="ignore")
_SPEC = ConfigDict(alias_generator=_alias, extra="forbid", strict=True)

for _type in vars(facts).values():
    if is_dataclass(_type) and isinstance(_type, type):
        is_spec = _type.__name__.endswith(("Spec", "Selector", "Requirement"))
        _type.__pydantic_config__ = _SPEC if is_spec else _STATUS  # type: ignore[attr-defined]

NODE_SPEC = TypeAdapter(facts.GpuNodeSpec)
NODE_STATUS = TypeAdapter(facts.GpuNodeStatus)
TOPOLOGY_SPEC = TypeAdapter(facts.RuntimeTopologySpec)
TOPOLOGY_STATUS = TypeAdapter(facts.RuntimeTopologyStatus)
_CREATED = TypeAdapter(datetime | None)


def parse_node(resource: Json) -> GpuNode:
    """Read a GpuNode; a spec that cannot be read is said to be a problem and raises nothing."""
    metadata, spec, problem = resource["metadata"], None, ""
    try:
        spec = NODE_SPEC.validate_json(_dump(resource.get("spec")))
    except ValidationError as error:
        problem = explain(error)
    return GpuNode(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation", 0),
        spec=spec,
        problem=problem,
        labels=metadata.get("labels") or {},
        status=_parse_status(NODE_STATUS, resource),
        created=_CREATED.validate_python(metadata.get("creationTimestamp")),
    )


def parse_topology(resource: Json) -> RuntimeTopology:
    """Read a RuntimeTopology; a spec that cannot be read is said to be a problem and raises nothing."""
    metadata, spec, problem = resource["metadata"], facts.RuntimeTopologySpec(), ""
    try:
        spec = TOPOLOGY_SPEC.validate_json(_dump(resource.get("spec") or {}))
    except ValidationError as error:
        problem = explain(error)
    return RuntimeTopology(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation", 0),
        spec=spec,
        problem=problem,
        status=_parse_status(TOPOLOGY_STATUS, resource),
    )


def dump_status(status: facts.GpuNodeStatus | RuntimeTopologyStatus) -> dict[str, Any]:
    """Write a status as JSON data; what is not known is left out."""
    adapter: TypeAdapter[Any] = NODE_STATUS if isinstance(status, facts.GpuNodeStatus) else TOPOLOGY_STATUS
    dumped: dict[str, Any] = adapter.dump_python(status, mode="json", by_alias=True, exclude_none=True)
    return dumped


def explain(error: ValidationError) -> str:
    """Say what is wrong with a spec, each fault with the field as a manifest spells it."""
    return "; ".join(
        f"{'.'.join(['spec', *map(str, fault['loc'])])}: {fault['msg']}" for fault in error.errors(include_url=False)
    )


def _dump(spec: object) -> bytes:
    return TypeAdapter[Any](Any).dump_json(spec)


def _parse_status(adapter: TypeAdapter[Status], resource: Json) -> Status | None:
    stored = resource.get("status")
    if not stored:
        return None
    own = set(names.Condition)
    conditions = [entry for entry in stored.get("conditions") or () if entry.get("type") in own]
    try:
        return adapter.validate_python({**stored, "conditions": conditions})
    except ValidationError:
        return None  # somebody else's words: judged anew
