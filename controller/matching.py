"""Which scrape targets speak for a card, which of their series are the card's, and who else claims it.

A card's targets are found by the name or address of its host, in four ways, of which the first that finds one counts:
the scrape URL, the address that was discovered, the label `instance`, and labels whose value is a host. Only where none
finds the host as it is written, a short name stands for the only full name that begins with it, or the other way round.
"""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from heapq import nsmallest
from typing import NamedTuple
from urllib.parse import urlsplit

from controller import identity
from controller.facts import CardSelector, GpuNode, GpuNodeSpec, Policy, Sample, Survey, Target
from controller.texts import bounded

SHOWN = 3
"""How many candidates, cards or other GpuNodes a message names."""

_NEAR_LIMIT = 160

ADDRESS = "__address__"
"""The label that has the address of a target as it was discovered, before a person relabelled it."""

Scrape = tuple[str, str]
"""Job and instance, the two labels that Prometheus gives to everything it scrapes."""


@lru_cache(maxsize=1 << 16)
def normal_host(host: str) -> str:
    """Return the one spelling of a host: IP addresses in canonical form, names in lower case without the final dot.

    An IPv6 address loses brackets and zone, for a zone says only how its neighbour reaches it.
    """
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return host.lower().removesuffix(".")
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


@lru_cache(maxsize=1 << 16)
def split_address(text: str) -> tuple[str, int | None]:
    """Return the host and the port of an address as people write it: host, host:port, either in brackets, or a URL."""
    if "://" in text:
        try:
            url = urlsplit(text)
            return normal_host(url.hostname or ""), url.port
        except ValueError:
            return "", None
    host, _, port = text.rpartition(":")
    if host and port.isdecimal() and len(port) <= len("65535") and (":" not in host or host.endswith("]")):
        return normal_host(host), int(port)
    return normal_host(text), None


@lru_cache(maxsize=1 << 16)
def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1 << 16)
def _is_loopback(host: str) -> bool:
    if _is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return "localhost" in host.split(".")


class Way(StrEnum):
    """Where a target says on which host it is, in the order in which that counts."""

    SCRAPE_URL = "the scrape URL"
    ADDRESS = "the discovered address"
    INSTANCE = "the label instance"
    HOST_LABEL = "a host label"


class Place(NamedTuple):
    """A host and port on which a target says that it is."""

    way: Way
    host: str
    port: int


def places(target: Target, host_labels: Iterable[str]) -> Sequence[Place]:
    """Return where a target says that it is, each host and port once, by the first way that says so.

    A loopback address or `localhost` says nothing of a target that Prometheus reaches elsewhere.
    """
    labels, discovered = target.labels, target.discovered
    values = [labels.get(label) or discovered.get(label, "") for label in host_labels]
    return _places(target.host, target.port, labels.get("instance", ""), discovered.get(ADDRESS, ""), *values)


@lru_cache(maxsize=1 << 16)
def _places(host: str, port: int, instance: str, address: str, *labelled: str) -> Sequence[Place]:
    instance_host, instance_port = split_address(instance)
    stated = [
        (Way.ADDRESS, *split_address(address)),
        (Way.INSTANCE, instance_host, instance_port),
        *((Way.HOST_LABEL, split_address(value)[0], instance_port) for value in labelled),
    ]
    found = {(host, port): Way.SCRAPE_URL}
    for way, other, other_port in stated:
        if other and (not _is_loopback(other) or _is_loopback(host)):
            found.setdefault((other, other_port or port), way)
    return tuple(Place(way, *place) for place, way in found.items())


def wanted_ports(spec: GpuNodeSpec, policy: Policy) -> Sequence[int] | None:
    """Return the ports of a card's targets; None for all.

    Whoever names a job or labels has said which targets are meant: the operator's own ports do not restrict them.
    """
    selector = spec.target
    if selector.ports or selector.job is not None or selector.match_labels:
        return selector.ports
    return policy.target_ports


def obstacle(spec: GpuNodeSpec, policy: Policy, target: Target, port: int) -> str:
    """Say why a target on a card's host does not speak for the card; empty where it does."""
    ports, selector = wanted_ports(spec, policy), spec.target
    if ports is not None and port not in ports:
        return f"port {port} is not {_either(ports)}"
    if selector.job is not None and selector.job != (job := target.labels.get("job", "")):
        return f"job {job} is not {selector.job}"
    for label, value in sorted((selector.match_labels or {}).items()):
        if target.labels.get(label) != value:
            return f"label {label} is not {value}"
    return ""


@dataclass(frozen=True, slots=True)
class Match:
    """The targets that speak for a card, and how they were found."""

    targets: tuple[Target, ...] = ()
    way: Way | None = None
    host: str = ""
    """The host in the spelling in which it was found, or looked for."""
    rivals: tuple[str, ...] = ()
    """The hosts of which any can be meant, where that is the only reason for having no targets."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a survey has of one card."""

    match: Match
    samples: tuple[Sample, ...] = ()
    """The series that are the card's."""
    missing: str = ""
    """Where a target was looked for in vain, and what is near."""
    others: str = ""
    """Of which cards the targets' series are, where none is this card's."""
    owner: str = ""
    """The older GpuNode that claims the same card and counts for it."""
    note: str = ""
    """What to know of other GpuNodes."""


def look(nodes: Sequence[GpuNode], survey: Survey, policy: Policy) -> Mapping[str, Finding]:
    """Return what a survey has of each card that can be read, by the GpuNode's uid.

    Two GpuNodes claim the same card if they pick the same series of a target, or, where it has none, would by asking
    for the same. The older one counts, by creation and then by name. GpuNodes that tell no card apart (without `card`)
    and name their host alike are taken for the several cards of a host instead: they share its state, and say so.
    Another spelling of the host is no second card, unless each has a model of its own: who writes it does not know of
    the first.
    """
    index = Index(survey, policy)
    readable = [(node, node.spec) for node in nodes if node.spec]
    matches = {node.uid: index.match(spec) for node, spec in readable}
    spoken_for = {id(target) for match in matches.values() for target in match.targets}
    free = index.free(spoken_for) if not all(match.targets for match in matches.values()) else {}
    findings = {}
    holders, contested = dict[object, GpuNode](), dict[object, list[GpuNode]]()
    for node, spec in sorted(readable, key=lambda pair: _age(pair[0])):
        match, samples, asked = matches[node.uid], list[Sample](), identity.wanted(spec.card)
        for scrape in sorted({scrape_of(target.labels) for target in match.targets}):
            picked = index.samples(scrape, asked, spec.card.match_labels)
            samples += picked
            claim = scrape, tuple(map(id, picked)) or _frozen(asked, spec.card.match_labels)
            if (holder := holders.setdefault(claim, node)) is not node:
                contested.setdefault(claim, [holder]).append(node)
        finding = Finding(match, tuple(samples))
        if not match.targets:
            finding = replace(finding, missing=index.missing(spec, match, free))
        elif not samples:
            finding = replace(finding, others=index.others(match.targets, asked))
        findings[node.uid] = finding
    return _with_claims(findings, contested.values())


def _with_claims(findings: Mapping[str, Finding], contested: Iterable[Sequence[GpuNode]]) -> Mapping[str, Finding]:
    result = {**findings}
    twins = defaultdict[str, set[str]](set)
    for held in contested:  # the oldest first
        if _can_share(held):
            first = nsmallest(SHOWN + 1, (node.name for node in held))
            for node in held:
                others = _listed([name for name in first if name != node.name][:SHOWN], len(held) - 1)
                note = f"it shares its host's state with {others}, for nothing in spec.card tells them apart"
                result[node.uid] = replace(result[node.uid], note=note)
        else:
            for node in held[1:]:
                owner = result[node.uid].owner or held[0].name
                result[node.uid] = replace(result[node.uid], owner=owner)
            twins[held[0].uid] |= {node.name for node in held[1:]}
    for uid, names in twins.items():
        others = _listed(nsmallest(SHOWN, names), len(names))
        result[uid] = replace(result[uid], note=f"the same card is claimed by {others}, younger, which does not count")
    return result


def _can_share(held: Sequence[GpuNode]) -> bool:
    specs = [node.spec for node in held if node.spec]
    models = {spec.model for spec in specs if spec.model}
    return all(spec.card == CardSelector() for spec in specs) and (
        len({spec.host for spec in specs}) == 1 or len(models) == len(specs)
    )


def _age(node: GpuNode) -> tuple[object, ...]:
    return node.created is None, node.created, node.name


def _frozen(*asked: Mapping[str, str] | None) -> object:
    return tuple(tuple(sorted(part.items())) if part else () for part in asked)


def at(wanted: Iterable[tuple[str, int]], survey: Survey, policy: Policy) -> Mapping[tuple[str, int], Sequence[Target]]:
    """Return every target that says that it is on one of these hosts and ports, whichever job scrapes it."""
    found: dict[tuple[str, int], list[Target]] = {(normal_host(host), port): [] for host, port in wanted}
    for target in survey.targets:
        for place in places(target, policy.host_labels):
            if (place.host, place.port) in found:
                found[place.host, place.port].append(target)
    return found


class Considered(NamedTuple):
    """A target on a card's host, or on one that can be it."""

    target: Target
    place: Place
    why: str
    """Why it does not speak for the card; empty where it does."""


def consider(node: GpuNode, match: Match, survey: Survey, policy: Policy) -> Iterator[Considered]:
    """Yield each target that says that it is on a card's host, and why it speaks for the card or does not.

    `match` is what `look` found for the card in the same survey.
    """
    spec = node.spec
    if spec is None:
        return
    hosts, chosen = {normal_host(spec.host), match.host, *match.rivals}, {id(target) for target in match.targets}
    for target in survey.targets:
        there = [place for place in places(target, policy.host_labels) if place.host in hosts]
        if id(target) in chosen:
            yield Considered(target, next(place for place in there if place.way is match.way), "")
        elif there:
            why = obstacle(spec, policy, target, there[0].port)
            other = f"{match.way} finds others first" if match.way else f"{' and '.join(match.rivals)} can be meant"
            yield Considered(target, there[0], why or other)


class Index:
    """A survey arranged for look-up, so that a card costs the same however many there are."""

    def __init__(self, survey: Survey, policy: Policy) -> None:
        self._survey, self._policy = survey, policy
        self._targets: dict[Way, defaultdict[str, list[tuple[Target, int]]]] = {way: defaultdict(list) for way in Way}
        for target in survey.targets:
            for way, host, port in places(target, policy.host_labels):
                self._targets[way][host].append((target, port))
        self._samples: defaultdict[Scrape, list[Sample]] = defaultdict(list)
        for sample in survey.samples:
            self._samples[scrape_of(sample.labels)].append(sample)

    def match(self, spec: GpuNodeSpec) -> Match:
        """Return the targets that speak for a card, in a fixed order.

        A target must be on the card's host and on one of its ports, and satisfy `target.job` and `target.matchLabels`
        where they are given.
        """
        host = normal_host(spec.host)
        if found := self._found(host, spec):
            return found
        if _is_address(host) or _is_loopback(host):
            return Match(host=host)
        full = {*self._full_names.get(_first(host), ()), *([host] if "." in host else [])}
        others = [_first(host)] if "." in host else sorted(full)
        found_as = [match for other in others if (match := self._found(other, spec))]
        if len(full) == 1 and found_as:
            return found_as[0]
        return Match(host=host, rivals=tuple(sorted(full)) if found_as else ())

    def samples(
        self, scrape: Scrape, asked: Mapping[str, str], match_labels: Mapping[str, str] | None
    ) -> Sequence[Sample]:
        """Return the series of one scrape that are a card's: that carry its identity, and the labels as they stand."""
        samples = self._samples.get(scrape, ())
        if not asked and not match_labels:
            return samples
        return [one for one in samples if _carries(one.labels, match_labels) and identity.fits(one.labels, asked)]

    def free(self, spoken_for: AbstractSet[int]) -> Mapping[int, Sequence[str]]:
        """Say by port up to SHOWN hosts with a target that speaks for no card; `spoken_for` are the others' ids."""
        ports = defaultdict[int, set[str]](set)
        for target in self._survey.targets:
            if id(target) not in spoken_for:
                ports[target.port].add(split_address(target.labels.get("instance", ""))[0] or target.host)
        return {
            port: [bounded(f"{host}:{port} (another host)", _NEAR_LIMIT) for host in nsmallest(SHOWN, hosts)]
            for port, hosts in ports.items()
        }

    def missing(self, spec: GpuNodeSpec, match: Match, free: Mapping[int, Sequence[str]]) -> str:
        """Say where a card's target was looked for in vain, and up to SHOWN candidates that may be meant.

        Near is what is on the host but not the card's by port, job or label, what has a name that begins alike, and
        what is on one of the ports and speaks for no card (`free`).
        """
        ports, policy = wanted_ports(spec, self._policy), self._policy
        where = f" on port {_either(ports)}" if ports else ""
        where += f" of job {spec.target.job}" if spec.target.job is not None else ""
        where += " with the labels asked for" if spec.target.match_labels else ""
        text = f"no target{where} has {match.host} as host in its scrape URL, {ADDRESS}, instance or a label of "
        text += ", ".join(policy.host_labels)
        hosts = [match.host] if _is_address(match.host) else [match.host, *self._alike(match.host)]
        near = {
            f"{host}:{port} ({why})" if (why := obstacle(spec, policy, target, port)) else f"{host}:{port}"
            for host in hosts
            for targets in self._targets.values()
            for target, port in targets.get(host, ())
        }
        shown = [bounded(one, _NEAR_LIMIT) for one in nsmallest(SHOWN, near)]
        for port in ports or ():
            shown += free.get(port, ())
        return text + (f"; near it: {', '.join(shown[:SHOWN])}" if shown else "")

    def others(self, targets: Iterable[Target], asked: Mapping[str, str]) -> str:
        """Say of which other cards the series of a card's targets are."""
        scrapes = {scrape_of(target.labels) for target in targets}
        labels = [sample.labels for scrape in scrapes for sample in self._samples.get(scrape, ())]
        if not asked or not labels:
            return ""
        if cards := identity.described(labels, asked):
            return f"they have series of {_listed(cards[:SHOWN], len(cards), 'card')}"
        return f"their series carry no {' and no '.join(identity.FIELDS[name].name for name in asked)}"

    def _found(self, host: str, spec: GpuNodeSpec) -> Match | None:
        for way, targets in self._targets.items():
            on_host = targets.get(host)
            if on_host and (
                found := [target for target, port in on_host if not obstacle(spec, self._policy, target, port)]
            ):
                return Match(tuple(sorted(found, key=_order)), way, host)
        return None

    def _alike(self, host: str) -> list[str]:
        return sorted({_first(host), *self._full_names.get(_first(host), ())} - {host})

    @cached_property
    def _full_names(self) -> Mapping[str, set[str]]:
        """Full host names by what is before the first dot."""
        names = defaultdict[str, set[str]](set)
        for targets in self._targets.values():
            for host in targets:
                if "." in host and not _is_address(host) and not _is_loopback(host):
                    names[_first(host)].add(host)
        return names


def scrape_of(labels: Mapping[str, str]) -> Scrape:
    """Return of which scrape a target or a series is."""
    return labels.get("job", ""), labels.get("instance", "")


def _order(target: Target) -> tuple[object, ...]:
    return target.scrape_url, sorted(target.labels.items())


def _carries(labels: Mapping[str, str], wanted: Mapping[str, str] | None) -> bool:
    return not wanted or wanted.items() <= labels.items()


def _first(host: str) -> str:
    return host.partition(".")[0]


def _either(ports: Iterable[int]) -> str:
    return " or ".join(map(str, ports))


def _listed(names: Sequence[str], total: int, what: str = "GpuNode") -> str:
    more = f" and {total - len(names)} more" if total > len(names) else ""
    return f"{what}{'s' if total > 1 else ''} {', '.join(names)}{more}"
