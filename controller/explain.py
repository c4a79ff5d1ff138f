"""`gpu-topology explain`: why a card is judged as it is, from its targets and series to the rule."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pydantic.alias_generators import to_camel

from controller import matching, phases, readings
from controller.decisions import decide
from controller.exporters import Profile
from controller.facts import GpuNode, Instant, Memory, Policy, Sample, SourceFailure, Survey, World
from controller.matching import Finding
from controller.prometheus import Prometheus
from controller.settings import Settings
from controller.texts import bounded
from controller.views import aligned

SHOWN = 20
"""How many targets and how many series are shown one by one."""

_WIDTH = 160


async def run(node: GpuNode, nodes: Sequence[GpuNode], settings: Settings) -> bool:
    """Print why a card, one of all, is judged as it is; tell whether Prometheus answered."""
    async with Prometheus(settings.source, settings.timeout_seconds, settings.series) as prometheus:
        survey = await prometheus.survey()
    if isinstance(survey, SourceFailure):
        print(f"gpu-topology: {survey.message}", file=sys.stderr)
        return False
    print(explain(node, nodes, survey, settings.policy, Instant(datetime.now(UTC), time.monotonic())))
    return True


def explain(node: GpuNode, nodes: Sequence[GpuNode], survey: Survey, policy: Policy, now: Instant) -> str:
    """Say what a card is judged to be, by which rule, and what that rests on.

    Judged as the operator does, with all other cards; its memory alone, which makes durations exact, is not known.
    """
    decision = decide(World(tuple(nodes), (), survey), Memory(), now, policy)
    judged = {change.node.uid: change.status for change in decision.nodes}
    parts = []
    if status := judged.get(node.uid, node.status):
        rows = [("phase", status.phase), ("reason", status.reason), ("rule", phases.RULES.get(status.reason, ""))]
        parts.append(aligned([("card", node.name), *rows, ("message", status.message)]))
    recognised = replace(survey, samples=readings.recognise(survey.samples, policy.profiles))
    if found := matching.look(nodes, recognised, policy).get(node.uid):
        parts += [_targets(node, found, survey, policy), _series(found, survey, policy.profiles)]
    return "\n\n".join(parts)


def _targets(node: GpuNode, found: Finding, survey: Survey, policy: Policy) -> str:
    considered = list(matching.consider(node, found.match, survey, policy)) if node.spec else []
    rows = [
        ("no" if one.why else "yes", bounded(one.target.scrape_url, _WIDTH), one.target.health, one.place.way, one.why)
        for one in sorted(considered, key=lambda one: (bool(one.why), one.target.scrape_url, one.why))
    ]
    head = f"targets: {len(found.match.targets)} of {len(survey.targets):,} speak for the card"
    shown = [head, *_limited(aligned([("", *row) for row in rows]).splitlines() if rows else [])]
    if elsewhere := len(survey.targets) - len(considered):
        shown.append(f"   {elsewhere:,} on other hosts")
    if found.missing:
        shown.append(f"   {found.missing}")
    return "\n".join(shown)


def _series(found: Finding, survey: Survey, profiles: Sequence[Profile]) -> str:
    scrapes = {matching.scrape_of(target.labels) for target in found.match.targets}
    given = sum(matching.scrape_of(sample.labels) in scrapes for sample in survey.samples)
    merged = readings.values(readings.read(found.samples, profiles))
    rows = [("", *row) for row in sorted(_reading(sample, merged, profiles) for sample in found.samples)]
    head = f"series: {len(found.samples)} of the {given} that these targets gave are the card's"
    shown = [head, *_limited(aligned(rows).splitlines() if rows else [])]
    return "\n".join([*shown, f"   {found.others}"] if found.others else shown)


def _reading(sample: Sample, merged: dict[str, float | None], profiles: Sequence[Profile]) -> tuple[str, str, str]:
    """Return which reading a series gives, its value, and the series."""
    labels = ", ".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()) if name != "__name__")
    series = bounded(f"{sample.name}{{{labels}}} {sample.value:g}", _WIDTH)
    for field, value in readings.values(readings.read([sample], profiles)).items():
        if value is not None:
            return (
                to_camel(field),
                f"{value:g}" if value == merged[field] else f"{value:g}, not the one that counts",
                series,
            )
    return "none", "cannot be true", series


def _limited(lines: Sequence[str]) -> list[str]:
    more = [f"   and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
    return [*lines[:SHOWN], *more]
