"""The judge: holds a recorded history against the contract, and says which rule it breaks, where, and how.

The contract's tables stand here a second time, so that a fault in the operator's own cannot hide itself.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from math import inf
from typing import NamedTuple

from tests.history.history import DELETED, GPU_NODES, MODIFIED, RUNTIME_TOPOLOGIES, Json, Revision, trails

ROUNDING_SECONDS = 1
"""What stamps in whole seconds may hide, and what a watch may deliver late."""
TRANSITIONS = 20
HEARTBEATS = 10
"""How many times at most an unchanged status may be confirmed while it is valid."""

DEGRADATIONS = {
    "multi_gpu": (0, "NORMAL", ["full_routing"]),
    "single_gpu": (0, "NORMAL", []),
    "degraded_single_gpu": (1, "LIGHT", ["force_llama", "protect_qwen"]),
    "inventory_only": (2, "HEAVY", ["block_heavy_routes"]),
}
LISTS = {
    "activeGpus": ("active", "online"),
    "inventoryGpus": ("inventory", "expected_offline"),
    "unexpectedDown": ("unexpectedDown", "unexpected_down"),
    "unknownGpus": ("unknown", "unknown"),
}


class Rule(StrEnum):
    """What the contract promises about every history."""

    WINDOW = "mode changes are at least the window apart"
    DEGRADATION = "level, name and directives fit the mode"
    MODE = "the mode is what the lists say, or what they say is pending"
    PARTITION = "the lists partition the cards that existed"
    COUNTS = "counts are the lengths of the lists"
    TRANSITIONS = "transitions only grow, and agree with the modes seen"
    TRANSITION_TIME = "lastTransitionTime moves only with its value"
    OBSERVED_AT = "observedAt never goes back"
    WRITER = "a field has one writer"
    IDLE_WRITE = "nothing is written without a change"
    TRACES = "no object has a finalizer or an annotation of kopf"
    SETTLED = "in the end every card is judged, and listed as it is judged"


class Breach(NamedTuple):
    """A promise that a history breaks."""

    rule: Rule
    where: str
    how: str


@dataclass(frozen=True, slots=True)
class Terms:
    """What a test knows of its own history."""

    lag_seconds: float = 5
    """For how long a topology may list a card that is gone, or not list one that is there.

    The two kinds are written one after the other, from one listing of both: a topology's revision is right if its
    cards are those of some moment between this long before it was seen and a second after.
    """
    stamps: bool = True
    """Stamps tell durations; not so where the wall clock jumped."""


def check(revisions: Sequence[Revision], terms: Terms | None = None) -> list[Breach]:
    """Return every breach of the contract in a history that has come to rest."""
    terms = terms or Terms()
    cards = _lives(revisions)
    breaches = [*_settled(revisions)]
    for trail in trails(revisions):
        for before, now in pairwise([None, *(revision for revision in trail if revision.event != DELETED)]):
            if now is None:
                continue
            rules = _TOPOLOGY_RULES if now.plural == RUNTIME_TOPOLOGIES else ()
            for rule, judge in (*_RULES, *rules):
                breaches += [_breach(rule, now, how) for how in judge(before, now)]
            if now.plural == RUNTIME_TOPOLOGIES and (before is None or now.status != before.status):
                breaches += [_breach(Rule.PARTITION, now, how) for how in _partition(now, cards, terms.lag_seconds)]
        breaches += [*_windows(trail, terms), *_writers(trail)]
    return breaches


def _breach(rule: Rule, revision: Revision, how: str) -> Breach:
    return Breach(rule, f"{revision.plural}/{revision.name} at {revision.version}", how)


# ---- one revision, and the one before it


def _degradation(_before: Revision | None, now: Revision) -> Iterator[str]:
    mode, degradation = now.status.get("mode"), now.status.get("degradation") or {}
    found = (degradation.get("level"), degradation.get("name"), degradation.get("directives") or [])
    if mode and found != DEGRADATIONS[mode]:
        yield f"{mode} has {found}"


def _mode(_before: Revision | None, now: Revision) -> Iterator[str]:
    mode, pending = now.status.get("mode"), now.status.get("pendingMode")
    count = {field: len(now.status.get(field) or ()) for field in LISTS}
    match count["activeGpus"]:
        case 0:
            fitting = "inventory_only"
        case 1:
            fitting = "degraded_single_gpu" if count["inventoryGpus"] or count["unexpectedDown"] else "single_gpu"
        case _:
            fitting = "multi_gpu"
    if mode and (pending or mode) != fitting:
        yield f"the lists {count} say {fitting}, the mode is {mode}, pending {pending}"
    if pending and pending == mode:
        yield f"{mode} is pending already"


def _counts(_before: Revision | None, now: Revision) -> Iterator[str]:
    if not now.status.get("observedGeneration"):
        return  # as the CRD begins it: nothing is judged yet
    lengths = {count: len(now.status.get(field) or ()) for field, (count, _) in LISTS.items()}
    if now.status.get("counts") != {**lengths, "total": sum(lengths.values())}:
        yield f"{now.status.get('counts')}, the lists have {lengths}"
    vram = sum(entry.get("vramGb") or 0 for entry in now.status.get("activeGpus") or ())
    if now.status.get("activeVramGb", 0) != vram:
        yield f"activeVramGb is {now.status.get('activeVramGb')}, the active cards have {vram}"


def _transitions(before: Revision | None, now: Revision) -> Iterator[str]:
    old = (before.status.get("transitions") if before else None) or []
    new, mode = now.status.get("transitions") or [], now.status.get("mode")
    if len(new) > TRANSITIONS:
        yield f"there are {len(new)}"
    grown = next((count for count in range(len(new) + 1) if new[count:] == old[: TRANSITIONS - count]), None)
    if grown is None or (old and not new):
        yield "earlier ones were lost or rewritten"
    elif before and not now.gap and grown != (mode != before.status.get("mode")):
        yield f"{grown} came while the mode went from {before.status.get('mode')} to {mode}"
    for later, earlier in pairwise(new):
        if later.get("from") != earlier["to"]:
            yield f"{later} does not follow on {earlier}"
    if mode and (not new or (new[0]["to"], new[0]["at"]) != (mode, now.status.get("lastTransitionTime"))):
        yield f"the newest of them is not the change to {mode}"


def _transition_times(before: Revision | None, now: Revision) -> Iterator[str]:
    if before is None:
        return
    value = "phase" if now.plural == GPU_NODES else "mode"
    pairs = [(value, before.status, now.status)]
    conditions = {condition["type"]: condition for condition in before.status.get("conditions") or ()}
    pairs += [
        ("status", conditions[condition["type"]], condition)
        for condition in now.status.get("conditions") or ()
        if condition["type"] in conditions
    ]
    for value, old, new in pairs:
        moved = old.get("lastTransitionTime") != new.get("lastTransitionTime")
        if moved and old.get(value) == new.get(value):
            yield f"{new.get('type', value)} is {new.get(value)} as before"


def _observed_at(before: Revision | None, now: Revision) -> Iterator[str]:
    old, new = (before.status.get("observedAt") if before else None), now.status.get("observedAt")
    if old and new and new < old:
        yield f"{new} follows on {old}"


def _traces(_before: Revision | None, now: Revision) -> Iterator[str]:
    metadata = now.resource["metadata"]
    yield from (f"finalizer {finalizer}" for finalizer in metadata.get("finalizers") or ())
    yield from (f"annotation {key}" for key in metadata.get("annotations") or () if "kopf" in key)


def _idle_write(before: Revision | None, now: Revision) -> Iterator[str]:
    if before is None or now.event != MODIFIED or now.gap or _substance(before) != _substance(now):
        return
    old, new = before.status.get("observedAt"), now.status.get("observedAt")
    if old == new:
        yield "it says what it said before"
    elif old and new and now.seen - before.seen < now.status.get("validForSeconds", inf) / HEARTBEATS:
        yield f"observedAt alone is written after {now.seen - before.seen:.1f} s"


def _substance(revision: Revision) -> tuple[Json, ...]:
    metadata = dict(revision.resource["metadata"])
    del metadata["resourceVersion"]
    metadata.pop("managedFields", None)
    status = {field: value for field, value in revision.status.items() if field != "observedAt"}
    return metadata, revision.resource.get("spec") or {}, status


Judge = Callable[[Revision | None, Revision], Iterable[str]]
_RULES: tuple[tuple[Rule, Judge], ...] = (
    (Rule.TRANSITION_TIME, _transition_times),
    (Rule.OBSERVED_AT, _observed_at),
    (Rule.TRACES, _traces),
    (Rule.IDLE_WRITE, _idle_write),
)
_TOPOLOGY_RULES: tuple[tuple[Rule, Judge], ...] = (
    (Rule.DEGRADATION, _degradation),
    (Rule.MODE, _mode),
    (Rule.COUNTS, _counts),
    (Rule.TRANSITIONS, _transitions),
)

# ---- the whole history


class _Life(NamedTuple):
    name: str
    born: float
    died: float


def _lives(revisions: Iterable[Revision]) -> list[_Life]:
    lives = []
    for trail in trails(revision for revision in revisions if revision.plural == GPU_NODES):
        died = trail[-1].seen if trail[-1].event == DELETED else inf
        lives.append(_Life(trail[0].name, trail[0].seen, died))
    return lives


def _partition(topology: Revision, cards: Iterable[_Life], lag_seconds: float) -> Iterator[str]:
    if not topology.status:
        return
    listed = Counter(entry["name"] for field in LISTS for entry in topology.status.get(field) or ())
    oldest, newest = topology.seen - lag_seconds, topology.seen + ROUNDING_SECONDS
    possible = {card.name for card in cards if card.born <= newest and card.died >= oldest}
    certain = {card.name for card in cards if card.born < oldest and card.died > newest}
    if twice := sorted(name for name, count in listed.items() if count > 1):
        yield f"{twice} are listed twice"
    if ghosts := sorted(listed.keys() - possible):
        yield f"{ghosts} do not exist"
    if lost := sorted(certain - listed.keys()):
        yield f"{lost} exist and are not listed"
    for field, (_, phase) in LISTS.items():
        if wrong := [entry["name"] for entry in topology.status.get(field) or () if entry["status"] != phase]:
            yield f"{wrong} are in {field} and not {phase}"


def _windows(trail: Sequence[Revision], terms: Terms) -> Iterator[Breach]:
    changes = [now for before, now in pairwise(trail) if now.status.get("mode") != before.status.get("mode")]
    changes = [trail[0], *changes] if trail[0].status.get("mode") else changes
    for before, now in pairwise(changes):
        if now.event == DELETED:
            continue
        window = min(revision.resource["spec"].get("stabilizationSeconds", 30) for revision in (before, now))
        stamps = [datetime.fromisoformat(one.status["lastTransitionTime"]) for one in (before, now)]
        stamped = (stamps[1] - stamps[0]).total_seconds() if terms.stamps else inf
        seen = inf if before.gap or now.gap else now.seen - before.seen
        if min(stamped, seen) < window - ROUNDING_SECONDS:
            how = f"{before.status['mode']}, {now.status['mode']}: {stamped:g} s stamped, {seen:.1f} s seen of {window}"
            yield _breach(Rule.WINDOW, now, how)


def _writers(trail: Sequence[Revision]) -> Iterator[Breach]:
    field = "f:phase" if trail[0].plural == GPU_NODES else "f:mode"
    writers = sorted(
        {
            entry["manager"]
            for revision in trail
            for entry in revision.resource["metadata"].get("managedFields") or ()
            if field in (entry.get("fieldsV1") or {}).get("f:status", ())
        }
    )
    if len(writers) > 1:
        yield _breach(Rule.WRITER, trail[-1], f"{field} is written by {writers}")


def _settled(revisions: Iterable[Revision]) -> Iterator[Breach]:
    last = [trail[-1] for trail in trails(revisions) if trail[-1].event != DELETED]
    cards = {card.name: card for card in last if card.plural == GPU_NODES}
    for one in last:
        generation = one.resource["metadata"]["generation"]
        if one.status.get("observedGeneration") != generation:
            yield _breach(Rule.SETTLED, one, f"generation {generation}, judged {one.status.get('observedGeneration')}")
    for topology in (one for one in last if one.plural == RUNTIME_TOPOLOGIES):
        listed = {entry["name"]: entry["status"] for field in LISTS for entry in topology.status.get(field) or ()}
        judged = {name: card.status.get("phase") for name, card in cards.items()}
        if listed != judged:
            wrong = sorted(set(listed.items()) ^ set(judged.items()), key=str)
            yield _breach(Rule.SETTLED, topology, f"cards and lists differ in {wrong}")
