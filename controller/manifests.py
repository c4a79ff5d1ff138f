"""GpuNodes and RuntimeTopologies as people keep them in files."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller import names, resources
from controller.facts import GpuNode, RuntimeTopology

_SUFFIXES = {".yaml", ".yml", ".json"}


class ManifestError(Exception):
    """Files cannot be read as manifests; the text has one line for each fault, with its file and object."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What files declare."""

    nodes: tuple[GpuNode, ...]
    topologies: tuple[RuntimeTopology, ...]


def read(sources: Iterable[str]) -> Declared:
    """Read manifests of both kinds and leave out all others; raise ManifestError with every fault there is.

    A source is a file, a folder of .yaml, .yml and .json files, or `-` for standard input; it may hold lists, as
    `kubectl get --output=yaml` prints them.
    """
    nodes: dict[str, GpuNode] = {}
    topologies: dict[str, RuntimeTopology] = {}
    faults: list[str] = []
    for where, resource in _resources(sources, faults):
        kind, name = resource.get("kind"), (resource.get("metadata") or {}).get("name")
        if kind not in {names.GPU_NODE, names.RUNTIME_TOPOLOGY}:
            continue
        what = f"{where}: {kind} {name}"
        if not isinstance(name, str) or not name:
            faults.append(f"{where}: a {kind} has no metadata.name")
        elif resource.get("apiVersion") != names.API_VERSION:
            faults.append(f"{what}: apiVersion must be {names.API_VERSION}, but it is {resource.get('apiVersion')}")
        elif name in (nodes if kind == names.GPU_NODE else topologies):
            faults.append(f"{what}: it is declared twice")
        elif problem := _declare(resource, nodes, topologies):
            faults.append(f"{what}: {problem}")
    if faults:
        raise ManifestError("\n".join(faults))
    return Declared(
        tuple(node for _, node in sorted(nodes.items())), tuple(topology for _, topology in sorted(topologies.items()))
    )


def _declare(resource: dict[str, Any], nodes: dict[str, GpuNode], topologies: dict[str, RuntimeTopology]) -> str:
    """Add what a manifest declares; return why it cannot be read, if so."""
    created = _as_created(resource)
    if resource["kind"] == names.RUNTIME_TOPOLOGY:
        topology = resources.parse_topology(created)
        topologies[topology.name] = topology
        return topology.problem
    node = resources.parse_node(created)
    nodes[node.name] = node
    return node.problem


def _as_created(resource: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest as the API server takes in a new object: with an identity of its own, and without status."""
    metadata = resource["metadata"]
    identity = {"name": metadata["name"], "uid": metadata["name"], "generation": 1, "labels": metadata.get("labels")}
    return {"metadata": identity, "spec": resource.get("spec") or {}}


def _resources(sources: Iterable[str], faults: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, text in _texts(sources, faults):
        try:
            documents = list(yaml.safe_load_all(text))
        except (yaml.YAMLError, RecursionError) as error:
            faults.append(f"{where}: this is not YAML: {' '.join(str(error).split())}")
            continue
        for document in documents:
            listed = document.get("items") if isinstance(document, dict) else None
            for resource in listed if isinstance(listed, list) else [document]:
                if isinstance(resource, dict):
                    yield where, resource
                elif resource is not None:
                    faults.append(f"{where}: this is no Kubernetes object: {str(resource)[:40]!r}")


def _texts(sources: Iterable[str], faults: list[str]) -> Iterator[tuple[str, str]]:
    for source in sources:
        path = Path(source)
        try:
            if source == "-":
                yield "standard input", sys.stdin.read()
            elif path.is_dir():
                for file in sorted(path.iterdir()):
                    if file.suffix in _SUFFIXES:
                        yield str(file), file.read_text()
            else:
                yield source, path.read_text()
        except (OSError, ValueError) as error:
            faults.append(f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}")
