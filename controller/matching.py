"""Which scrape targets speak for a card, and which of their series are the card's."""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from controller import identity
from controller.facts import CardSelector, GpuNodeSpec, Sample, Survey, Target


def normal_host(host: str) -> str:
    """Return the one spelling of a host: IP addresses in canonical form, names in lower case without the final dot."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower().removesuffix(".")


class Index:
    """A survey arranged for look-up, so that a card costs the same however many there are."""

    def __init__(self, survey: Survey) -> None:
        self._targets: defaultdict[str, list[Target]] = defaultdict(list)
        for target in survey.targets:
            self._targets[target.host].append(target)
        self._samples: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
        for sample in survey.samples:
            self._samples[_scrape(sample.labels)].append(sample)

    def targets(self, spec: GpuNodeSpec, default_ports: Sequence[int]) -> tuple[Target, ...]:
        """Return the targets that speak for a card, in a fixed order.

        A target must be on the card's host and on one of its ports, and satisfy `target.job` and `target.matchLabels`
        where they are given.
        """
        selector = spec.target
        ports = selector.ports or default_ports
        found = [
            target
            for target in self._targets.get(normal_host(spec.host), ())
            if target.port in ports
            and (selector.job is None or selector.job == target.labels.get("job"))
            and _carries(target.labels, selector.match_labels)
        ]
        return tuple(sorted(found, key=lambda target: (target.scrape_url, _scrape(target.labels))))

    def samples(self, targets: Iterable[Target], selector: CardSelector) -> tuple[Sample, ...]:
        """Return the series that a card's targets gave and that are the card's.

        A series belongs to a target by the two labels that Prometheus gives to everything it scrapes, job and instance.
        """
        scrapes = sorted({_scrape(target.labels) for target in targets})
        asked = identity.wanted(selector)
        return tuple(
            sample
            for scrape in scrapes
            for sample in self._samples.get(scrape, ())
            if _carries(sample.labels, selector.match_labels) and identity.fits(sample.labels, asked)
        )


def _scrape(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("job", ""), labels.get("instance", "")


def _carries(labels: Mapping[str, str], wanted: Mapping[str, str] | None) -> bool:
    return not wanted or wanted.items() <= labels.items()
