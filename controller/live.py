"""The commands that speak with a cluster: get, watch and export its state, and apply an imported file."""

import asyncio
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller import kube, names, resources, views
from controller.cluster import Cluster
from controller.facts import DegradationName, GpuNode, RuntimeTopology
from controller.kube import ApiError
from controller.resources import Json
from controller.texts import bounded

SUCCESS, FAILURE, REACHED, NO_STATE = 0, 1, 3, 4
"""The exit codes: the level of `--fail-on` is reached; the cluster holds no state that could be told."""

LEVELS: Mapping[str, int] = {DegradationName.LIGHT: 1, DegradationName.HEAVY: 2}
"""What `--fail-on` may be."""

BREATH_SECONDS = 0.5
"""How long after a change the state is read: the operator writes several objects at once."""
RETRY_SECONDS = (0.5, 10.0)
"""How long an API server in trouble is left alone, first and at most."""

_LINE_LIMIT = 2048


@dataclass(frozen=True, slots=True)
class State:
    """One topology and its cards, as the API server has them."""

    name: str
    resource: Json | None
    topology: RuntimeTopology | None
    nodes: tuple[GpuNode, ...]
    """Those that the topology lists; none where nobody asked for them."""

    @property
    def doubt(self) -> str:
        """Why there is no state to go by; empty where there is one."""
        if self.topology is None:
            return f"there is no RuntimeTopology {self.name!r}"
        if not (self.topology.status and self.topology.status.mode):
            return f"RuntimeTopology {self.name!r} has no mode yet: no operator has judged it"
        return ""

    def show(self, output: str) -> str:
        """Return the state in one of the views' outputs; empty where there is nothing to show."""
        if self.resource is None or self.topology is None:
            return ""
        colour = views.colours(sys.stdout)
        return views.show(output, self.nodes, self.topology.status, self.resource, colour=colour)

    def verdict(self, fail_on: str | None) -> int:
        """Return the exit code that this state deserves."""
        if self.doubt:
            return NO_STATE
        degradation = self.topology and self.topology.status and self.topology.status.degradation
        return REACHED if fail_on and degradation and degradation.level >= LEVELS[fail_on] else SUCCESS


async def get(name: str, output: str, fail_on: str | None) -> int:
    """Print a topology once."""
    async with Cluster(await kube.connect()) as cluster:
        state, _ = await _read(cluster, name, output)
    if shown := state.show(output):
        print(shown)
    _say(state.doubt)
    return state.verdict(fail_on)


async def watch(name: str, output: str, fail_on: str | None) -> int:
    """Print a topology, and again at each change, until it is as bad as `fail_on`; else for ever.

    Only the first request has to succeed: an API server that goes away later is waited for.
    """
    printed, said, pause = "", "", 0.0
    async with Cluster(await kube.connect()) as cluster:
        while True:
            try:
                state, versions = await _read(cluster, name, output)
                pause = BREATH_SECONDS
                if (shown := state.show(output)) and shown != printed:
                    print(shown, flush=True)
                    printed = shown
                if state.doubt != said:
                    said = _say(state.doubt)
                if state.verdict(fail_on) == REACHED:
                    return REACHED
                await cluster.changed(versions)
            except ApiError as error:
                if not pause:
                    raise
                if str(error) != said:
                    said = _say(str(error))
                first, most = RETRY_SECONDS
                pause = max(first, min(pause * 2, most), error.retry_after_seconds)
            await asyncio.sleep(pause)


async def apply(manifests: Iterable[Json]) -> int:
    """Apply GpuNodes and print a line for each; where the API server would refuse any, apply none."""
    manifests = list(manifests)
    async with Cluster(await kube.connect()) as cluster:
        listed, _ = await cluster.read(names.GPU_NODES)
        before = {item["metadata"]["name"]: _declared(item) for item in listed}
        if not await _apply(cluster, manifests, before, dry_run=True):
            _say("nothing is applied")
            return FAILURE
        return SUCCESS if await _apply(cluster, manifests, before, dry_run=False) else FAILURE


async def _apply(cluster: Cluster, manifests: Iterable[Json], before: Mapping[str, Json], *, dry_run: bool) -> bool:
    succeeded = True
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        try:
            applied = await cluster.apply(names.GPU_NODES, manifest, dry_run=dry_run)
        except (kube.RefusedError, kube.OutdatedError) as error:  # this one alone; the next may do
            _say(str(error))
            succeeded = False
            continue
        if not dry_run:
            same = applied and _declared(applied) == before.get(name)
            done = "created" if applied is None else "unchanged" if same else "configured"
            print(f"{names.GPU_NODE.lower()}.{names.GROUP}/{name} {done}", flush=True)
    return succeeded


def _declared(resource: Json) -> Json:
    """Return what people say of an object; its version tells of status as well."""
    kept = ("labels", "annotations")
    return {"spec": resource["spec"], **{name: resource["metadata"].get(name) for name in kept}}


async def _read(cluster: Cluster, name: str, output: str) -> tuple[State, Mapping[tuple[str, str], str]]:
    what, cards = (names.RUNTIME_TOPOLOGIES, name), (names.GPU_NODES, "")
    found, version = await cluster.read(*what)
    versions = {what: version}
    resource = _without_managed_fields(found[0]) if found else None
    topology = resources.parse_topology(resource) if resource else None
    nodes: tuple[GpuNode, ...] = ()
    if output == "table":
        listed, versions[cards] = await cluster.read(*cards)
        members = _members(topology)
        parsed = (resources.parse_node(item) for item in listed if item["metadata"]["name"] in members)
        nodes = tuple(sorted(parsed, key=lambda node: node.name))
    return State(name, resource, topology, nodes), versions


def _members(topology: RuntimeTopology | None) -> set[str]:
    status = topology and topology.status
    if not status:
        return set()
    lists = (status.active_gpus, status.inventory_gpus, status.unexpected_down, status.unknown_gpus)
    return {entry.name for entries in lists for entry in entries}


def _without_managed_fields(resource: Json) -> Json:
    metadata = {key: value for key, value in resource["metadata"].items() if key != "managedFields"}
    return {**resource, "metadata": metadata}


def _say(text: str) -> str:
    """Tell a person at the terminal, if there is anything to tell; return the text."""
    if text:
        print(f"gpu-topology: {bounded(text, _LINE_LIMIT)}", file=sys.stderr, flush=True)
    return text
