"""`gpu-topology plan`: the topology of declared cards, with no cluster at all."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import yaml

from controller import manifests, names, resources
from controller.decisions import decide
from controller.facts import (
    GpuNode,
    Instant,
    Memory,
    Observation,
    Phase,
    Policy,
    RuntimeTopology,
    RuntimeTopologySpec,
    SourceFailure,
    World,
)
from controller.prometheus import Prometheus
from controller.settings import Settings
from controller.snapshot import snapshot
from controller.topologies import describe


class Plan:
    """Declared cards and their topology, judged as the operator judges them."""

    def __init__(self, declared: manifests.Declared, policy: Policy) -> None:
        self.nodes = declared.nodes
        name = names.DEFAULT_TOPOLOGY
        default = RuntimeTopology(name=name, uid=name, generation=1, spec=RuntimeTopologySpec())
        self.topology = next((one for one in declared.topologies if one.name == name), default)
        self._policy, self._memory = policy, Memory()

    def take_in(self, observation: Observation, now: Instant) -> float | None:
        """Judge by what Prometheus shows; return in how many seconds time alone changes the outcome."""
        decision = decide(World(self.nodes, (self.topology,), observation), self._memory, now, self._policy)
        self._memory = decision.memory
        judged = {change.node.name: change.status for change in decision.nodes}
        self.nodes = tuple(replace(node, status=judged.get(node.name, node.status)) for node in self.nodes)
        for change in decision.topologies:
            self.topology = replace(self.topology, status=change.status)
        return decision.look_again


async def run(plan: Plan, settings: Settings, output: str, *, watch: bool) -> bool:
    """Print the topology, and with `watch` print it again at each change for ever; tell whether Prometheus answered."""
    printed = said = ""
    async with Prometheus(settings.base_url, settings.timeout_seconds) as prometheus:
        while True:
            observation = await prometheus.survey()
            look_again = plan.take_in(observation, Instant(datetime.now(UTC), time.monotonic()))
            trouble = observation.message if isinstance(observation, SourceFailure) else ""
            if trouble and trouble != said:
                print(f"gpu-topology: {trouble}", file=sys.stderr)
            said = trouble
            shown = FORMATS[output](plan)
            if shown != printed and plan.topology.status and plan.topology.status.mode:
                print(shown, flush=True)
                printed = shown
            if not watch:
                return not trouble
            await asyncio.sleep(min(settings.poll_seconds, look_again or settings.poll_seconds))


def table(plan: Plan) -> str:
    """Show the cards in columns, then what follows from them, then why a card is not online."""
    status = plan.topology.status
    if not (status and status.mode and status.degradation):
        return ""
    degradation = status.degradation
    summary = [
        ("mode", status.mode),
        ("degradation", f"{degradation.name}, level {degradation.level}"),
        ("directives", ", ".join(degradation.directives) or "none"),
        ("cards", describe(status)),
    ]
    if status.pending_mode:
        summary.append(("pending", f"{status.pending_mode} at {status.hold_until:%H:%M:%S} UTC"))
    why = [
        (node.name, node.status.message) for node in plan.nodes if node.status and node.status.phase is not Phase.ONLINE
    ]
    return "\n\n".join(aligned(part) for part in (_cards(plan.nodes), summary, why) if part)


def _cards(nodes: Iterable[GpuNode]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("NAME", "MODEL", "HOST", "VRAM", "PHASE", "REASON", "TEMP", "LOAD", "POWER", "FAN")]
    for node in nodes:
        spec, status = node.spec, node.status
        if spec and status:
            readings = (status.gpu_temp_c, status.gpu_load_pct, status.gpu_power_w, status.gpu_fan_rpm)
            shown = ("" if value is None else f"{value:g}" for value in readings)
            rows.append((node.name, node.model, spec.host, str(spec.vram_gb), status.phase, status.reason, *shown))
    return rows


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as columns, one row a line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _resource(plan: Plan) -> Mapping[str, Any]:
    topology = plan.topology
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.RUNTIME_TOPOLOGY,
        "metadata": {"name": topology.name},
        "spec": resources.TOPOLOGY_SPEC.dump_python(topology.spec, mode="json", by_alias=True),
        "status": resources.dump_status(topology.status) if topology.status else {},
    }


FORMATS: Mapping[str, Callable[[Plan], str]] = {
    "table": table,
    "yaml": lambda plan: "---\n" + yaml.safe_dump(_resource(plan), sort_keys=False, allow_unicode=True).rstrip(),
    "json": lambda plan: json.dumps(_resource(plan), indent=2, ensure_ascii=False),
    "snapshot": lambda plan: (
        json.dumps(snapshot(plan.topology.status), indent=2, ensure_ascii=False) if plan.topology.status else ""
    ),
}
"""By the word after `--output`."""
