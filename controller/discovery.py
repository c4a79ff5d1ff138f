"""The cards that exporters show, as GpuNodes to start from."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from controller import names, readings, resources
from controller.exporters import Profile
from controller.facts import CardSelector, GpuNodeSpec, Policy, Sample, Survey, TargetSelector
from controller.texts import bounded

SIZES = (1, 2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 144, 192, 256, 288)
"""The sizes of memory, in GB, that cards are sold with."""
_RESERVED = 1.08
"""How much larger the size on the box may be than what is left of it: error correction alone takes a sixteenth."""
_LOOPBACK = ("127.", "::1", "localhost")
_PORTS_LIMIT = 16  # the CRD's
_NAME_LIMIT = 63


@dataclass(frozen=True, slots=True)
class Proposal:
    """A card as it could be declared, and what a person should look at before."""

    name: str
    spec: GpuNodeSpec
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Card:
    selector: Mapping[str, str]
    samples: Sequence[Sample]
    notes: tuple[str, ...] = ()


def marketed(total_gb: float) -> int:
    """Return the size that a card is sold with: the next one above, if little is missing, else the nearest number."""
    larger = (size for size in SIZES if total_gb <= size + 0.01 and size <= total_gb * _RESERVED)
    return next(larger, max(round(total_gb), 1))


def propose(survey: Survey, policy: Policy) -> tuple[tuple[Proposal, ...], tuple[str, ...]]:
    """Return a proposal for each card, sorted by name, and what was left out and why."""
    samples = readings.recognise(survey.samples, policy.profiles)
    by_scrape: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        by_scrape[sample.labels.get("job", ""), sample.labels.get("instance", "")].append(sample)
    scrapes: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    ports: defaultdict[str, set[int]] = defaultdict(set)
    for target in survey.targets:
        scrape = target.labels.get("job", ""), target.labels.get("instance", "")
        if scrape in by_scrape:
            scrapes[target.host].add(scrape)
            ports[target.host].add(target.port)
    proposals: dict[str, Proposal] = {}
    left_out: list[str] = []
    for host in sorted(scrapes):
        own = [sample for scrape in sorted(scrapes[host]) for sample in by_scrape[scrape]]
        for card in _cards(own, policy.profiles):
            proposal = _proposal(host, sorted(ports[host]), card, policy)
            if isinstance(proposal, str):
                left_out.append(proposal)
            else:
                name = _unused(proposal.name, proposals.__contains__)
                proposals[name] = replace(proposal, name=name)
    return tuple(proposals[name] for name in sorted(proposals)), tuple(left_out)


def manifest(proposal: Proposal) -> str:
    """Return a proposal as YAML, with its notes as comments before it."""
    resource = {
        "apiVersion": names.API_VERSION,
        "kind": names.GPU_NODE,
        "metadata": {"name": proposal.name},
        "spec": _without_nothing(resources.NODE_SPEC.dump_python(proposal.spec, mode="json", by_alias=True)),
    }
    comments = "".join(f"# {note}\n" for note in proposal.notes)
    return f"---\n{comments}{yaml.safe_dump(resource, sort_keys=False, allow_unicode=True)}"


def _without_nothing(value: Any) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(value, dict):
        return value
    fields = {name: _without_nothing(field) for name, field in value.items()}
    return {name: field for name, field in fields.items() if field not in (None, {}, False)}


def _cards(samples: Sequence[Sample], profiles: Sequence[Profile]) -> Sequence[_Card]:
    """Tell a host's cards apart by the exporter that shows most of them, and of those one that knows their memory."""
    views = [
        _by_identity(own, profile)
        for profile in profiles
        if (own := [sample for sample in samples if sample.profile is profile])
    ]
    best = max(views, key=lambda view: (len(view), sum(_total(card, profiles) is not None for card in view)))
    if len(best) == 1:
        return [_Card({}, samples)]
    if len(views) == 1:
        return best
    note = "Another exporter of this host shows cards, too; its series have other labels, and are not this card's."
    return [replace(card, notes=(*card.notes, note)) for card in best]


def _by_identity(samples: Sequence[Sample], profile: Profile) -> Sequence[_Card]:
    identity = profile.identity
    for several in (identity.uuid, identity.pci, identity.index, identity.model):
        cards: defaultdict[str, list[Sample]] = defaultdict(list)
        labels: defaultdict[str, set[str]] = defaultdict(set)
        for sample in samples:
            label = next((label for label in several if sample.labels.get(label)), "")
            cards[sample.labels.get(label, "")].append(sample)
            labels[sample.labels.get(label, "")].add(label)
        if several and "" not in cards:
            return [
                _Card({label: value}, cards[value])
                if len(labels[value]) == 1
                else _Card({}, cards[value], ("No label is in all series of this card: nothing can pick it.",))
                for value in sorted(cards)
                for label in [min(labels[value])]
            ]
    return [_Card({}, samples)]


def _total(card: _Card, profiles: Sequence[Profile]) -> float | None:
    return readings.measure(card.samples, profiles).get(readings.TOTAL)


def _proposal(host: str, ports: Sequence[int], card: _Card, policy: Policy) -> Proposal | str:
    """Return what could be declared of a card, or why nothing should."""
    model, total, notes = _model(card.samples), _total(card, policy.profiles), [*card.notes]
    if total is not None and total < 1:
        return f"{model or 'a card'} on {host}: its {total:g} GB of memory are those of integrated graphics"
    if total is None:
        notes.append("vramGb is not known: put in the size of the card's memory, in GB.")
    if not model:
        notes.append("The model is not known: without one, the card goes by the name of its GpuNode.")
    if host.startswith(_LOOPBACK):
        notes.append("The host is the address by which Prometheus reaches itself; other programs may need another.")
    if len(ports) > _PORTS_LIMIT:
        notes.append(f"More than {_PORTS_LIMIT} ports of this host show cards; the others are left out.")
    own_ports = {*ports} <= {*policy.target_ports}
    spec = GpuNodeSpec(
        host=host,
        vram_gb=1 if total is None else marketed(total),
        model=model or None,
        target=TargetSelector() if own_ports else TargetSelector(ports=tuple(ports[:_PORTS_LIMIT])),
        card=CardSelector(match_labels=card.selector or None),
    )
    return Proposal(_slug(f"{model or 'gpu'}-{host}"), spec, tuple(notes))


def _model(samples: Sequence[Sample]) -> str:
    """Return a card's name in the words of the first exporter that has one."""
    for sample in sorted(samples, key=lambda sample: (sample.name, sorted(sample.labels.items()))):
        for label in sample.profile.identity.model if sample.profile else ():
            if model := bounded(sample.labels.get(label, ""), 128):
                return model
    return ""


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_NAME_LIMIT].strip("-") or "gpu"


def _unused(name: str, taken: Callable[[str], bool]) -> str:
    number = 1
    unused = name
    while taken(unused):
        number += 1
        unused = f"{name[: _NAME_LIMIT - len(f'-{number}')].rstrip('-')}-{number}"
    return unused
