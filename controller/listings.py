"""The four lists of cards in a topology's status: cut where they would outgrow the object, while counts stay exact."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from controller.facts import ActiveGpu, Counts, GpuEntry, GpuNode, GpuNodeStatus, Phase, RuntimeTopologyStatus

LIMITS: Mapping[Phase, int] = {
    Phase.ONLINE: 128,
    Phase.EXPECTED_OFFLINE: 64,
    Phase.UNEXPECTED_DOWN: 64,
    Phase.UNKNOWN: 64,
}
"""How many cards each list shows: with the longest names of all, the object stays under 400 KB."""

READINGS = tuple(field.name for field in fields(ActiveGpu) if field.name.startswith("gpu_"))


def phase(card: GpuNode) -> Phase:
    """Return what a card is judged to be."""
    return card.status.phase if card.status else Phase.UNKNOWN


def listed(cards: Sequence[GpuNode]) -> dict[str, Any]:
    """Return the fields of a status that show the cards: lists by name, counts, and whether a list is cut."""
    of: defaultdict[Phase, list[GpuNode]] = defaultdict(list)
    for card in sorted(cards, key=lambda card: card.name):
        of[phase(card)].append(card)
    active, inventory, down, unknown = (tuple(map(_entry, of[one][:limit])) for one, limit in LIMITS.items())
    return {
        "active_gpus": active,
        "inventory_gpus": inventory,
        "unexpected_down": down,
        "unknown_gpus": unknown,
        "counts": Counts(
            total=len(cards),
            active=len(of[Phase.ONLINE]),
            inventory=len(of[Phase.EXPECTED_OFFLINE]),
            unexpected_down=len(of[Phase.UNEXPECTED_DOWN]),
            unknown=len(of[Phase.UNKNOWN]),
        ),
        "truncated": any(len(of[one]) > limit for one, limit in LIMITS.items()),
        "active_vram_gb": sum(card.spec.vram_gb for card in of[Phase.ONLINE] if card.spec),
    }


def shown(status: RuntimeTopologyStatus) -> Mapping[Phase, tuple[Sequence[GpuEntry], int]]:
    """Return each phase's list, and how many cards there are of it."""
    counts = status.counts
    return {
        Phase.ONLINE: (status.active_gpus, counts.active),
        Phase.EXPECTED_OFFLINE: (status.inventory_gpus, counts.inventory),
        Phase.UNEXPECTED_DOWN: (status.unexpected_down, counts.unexpected_down),
        Phase.UNKNOWN: (status.unknown_gpus, counts.unknown),
    }


def changed(last: RuntimeTopologyStatus, cards: Iterable[GpuNode]) -> set[str]:
    """Return the names of the cards that came, went, or are in another phase than the last status shows.

    Of a card that no list showed that is known only if the list that it is in now was not cut.
    """
    before = {entry.name: entry.status for entries, _ in shown(last).values() for entry in entries}
    whole = {one for one, (entries, count) in shown(last).items() if len(entries) == count}
    now = {card.name: phase(card) for card in cards}
    came = {name for name, one in now.items() if name not in before and one in whole}
    return came | {name for name, one in before.items() if now.get(name) is not one}


def with_readings(entry: ActiveGpu, carrier: GpuNodeStatus | ActiveGpu) -> ActiveGpu:
    """Return the entry with the readings of another carrier."""
    return replace(entry, **{name: getattr(carrier, name) for name in READINGS})


def phases(cards: Iterable[GpuNode]) -> Iterable[Phase]:
    """Return the phase of each card."""
    return Counter(map(phase, cards)).elements()


def _entry(card: GpuNode) -> GpuEntry:
    spec, status = card.spec, card.status
    entry = GpuEntry(
        name=card.name,
        model=card.model,
        host=spec.host if spec else None,
        vram_gb=spec.vram_gb if spec else None,
        status=phase(card),
        expected_offline=bool(spec and spec.expected_offline),
    )
    if not (status and status.phase is Phase.ONLINE):
        return entry
    return ActiveGpu(
        **{field.name: getattr(entry, field.name) for field in fields(GpuEntry)},
        **{name: getattr(status, name) for name in READINGS},
    )
