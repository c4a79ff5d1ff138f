"""The state as the commands print it: at a glance, as the resource, or as the plain snapshot."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import yaml

from controller.facts import GpuNode, GpuNodeStatus, Mode, Phase, RuntimeTopologyStatus
from controller.snapshot import snapshot
from controller.texts import bounded
from controller.topologies import describe

OUTPUTS = ("table", "yaml", "json", "snapshot")

_CELL_LIMIT = 2048
_COLOURS: Mapping[Phase | Mode, int] = {
    Phase.ONLINE: 32,
    Phase.EXPECTED_OFFLINE: 36,
    Phase.UNEXPECTED_DOWN: 31,
    Phase.UNKNOWN: 33,
    Mode.MULTI_GPU: 32,
    Mode.SINGLE_GPU: 32,
    Mode.DEGRADED_SINGLE_GPU: 33,
    Mode.INVENTORY_ONLY: 31,
}


def colours(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that wants colours; NO_COLOR says no (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show(
    output: str,
    nodes: Iterable[GpuNode],
    status: RuntimeTopologyStatus | None,
    resource: Mapping[str, Any],
    *,
    colour: bool = False,
) -> str:
    """Return a topology in one of OUTPUTS; empty where there is nothing to show yet."""
    match output:
        case "yaml":
            return as_yaml([resource])
        case "json":
            return as_json(resource)
        case "snapshot":
            return as_json(snapshot(status)) if status else ""
        case _:
            return table(nodes, status, colour=colour)


def table(nodes: Iterable[GpuNode], status: RuntimeTopologyStatus | None, *, colour: bool = False) -> str:
    """Show the cards in columns, then what follows from them, then why a card is not online."""
    if not (status and status.mode and status.degradation):
        return ""
    nodes = [node for node in nodes if node.status]
    cards = aligned(_cards(nodes), colour=colour)
    if (more := status.counts.total - len(nodes)) > 0:
        cards += f"\n… and {more} more"
    degradation = status.degradation
    summary: list[Sequence[str]] = [
        ("mode", status.mode),
        ("degradation", f"{degradation.name}, level {degradation.level}"),
        ("directives", ", ".join(degradation.directives) or "none"),
        ("cards", describe(status)),
    ]
    if status.pending_mode and status.hold_until:
        summary.append(("pending", f"{status.pending_mode} at {status.hold_until:%H:%M:%S} UTC"))
    why = [(node.name, node.status.message) for node in nodes if node.status and node.status.phase is not Phase.ONLINE]
    return "\n\n".join([cards, *(aligned(part, colour=colour) for part in (summary, why) if part)])


def as_json(data: object) -> str:
    """Return indented JSON that a terminal can be shown: where a character could move its cursor, in ASCII alone."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return text if _is_harmless(text) else json.dumps(data, indent=2)


def as_yaml(documents: Iterable[object]) -> str:
    """Return YAML documents without a final line break, with the same care as JSON."""
    documents = list(documents)
    for unicode in (True, False):
        text: str = yaml.dump_all(
            documents, Dumper=_Dumper, sort_keys=False, allow_unicode=unicode, explicit_start=True
        )
        if _is_harmless(text):
            break
    return text.rstrip("\n")


class _Dumper(yaml.SafeDumper):
    """Quote what kubectl's YAML takes for a number or a truth and Python's does not, such as 1e3 and y."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if re.match("[A-Za-z]{2}", text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)


def _is_harmless(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def _cards(nodes: Iterable[GpuNode]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("NAME", "MODEL", "HOST", "VRAM", "PHASE", "REASON", "TEMP", "LOAD", "POWER", "FAN")]
    for node in nodes:
        spec, status = node.spec, node.status
        if status:
            declared = (spec.host, str(spec.vram_gb)) if spec else ("", "")
            readings = (status.gpu_temp_c, status.gpu_load_pct, status.gpu_power_w)
            shown = ("" if value is None else f"{value:g}" for value in readings)
            rows.append((node.name, node.model, *declared, status.phase, status.reason, *shown, _fan(status)))
    return rows


def _fan(status: GpuNodeStatus) -> str:
    if status.gpu_fan_rpm is not None:
        return f"{status.gpu_fan_rpm:g}"
    return "" if status.gpu_fan_pct is None else f"{status.gpu_fan_pct:g}%"


def aligned(rows: Sequence[Sequence[str]], *, colour: bool = False) -> str:
    """Return rows as columns, one row a line."""
    texts = [[bounded(cell, _CELL_LIMIT) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join(
        "   ".join(
            _painted(cell, text, colour=colour) + " " * (width - len(text))
            for cell, text, width in zip(row, line, widths, strict=True)
        ).rstrip()
        for row, line in zip(rows, texts, strict=True)
    )


def _painted(cell: str, text: str, *, colour: bool) -> str:
    return f"\x1b[{_COLOURS[cell]}m{text}\x1b[0m" if colour and isinstance(cell, Phase | Mode) else text
