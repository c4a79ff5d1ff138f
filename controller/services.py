"""The health of a topology's services: scrape targets whose state stands beside the cards' and changes no mode."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from controller.conditions import State
from controller.facts import (
    ConditionStatus,
    Health,
    ServiceSpec,
    ServiceStatus,
    SourceFailure,
    Target,
    TargetHealth,
)
from controller.matching import normal_host
from controller.names import Reason
from controller.texts import bounded

MESSAGE_LIMIT = 128
"""How many characters the CRD takes as a service's message."""


def assess(
    declared: Iterable[ServiceSpec],
    last: Iterable[ServiceStatus],
    seen: Mapping[tuple[str, int], Sequence[Target]] | SourceFailure,
    recovered_seconds: float = inf,
) -> tuple[ServiceStatus, ...]:
    """Return the services' health, sorted by name; the last one known while nothing current is.

    `recovered_seconds` is for how long Prometheus has been believed again after a failure: it needs a full scrape
    interval before anything may get worse.
    """
    before = {(one.name, one.host, one.port): one for one in last}
    services = []
    for service in sorted(declared, key=lambda service: service.name):
        unclear = ServiceStatus(name=service.name, host=service.host, port=service.port, health=Health.UNKNOWN)
        known = before.get((service.name, service.host, service.port), unclear)
        if not isinstance(seen, SourceFailure):
            known = _judge(known, seen.get((normal_host(service.host), service.port), ()), recovered_seconds)
        services.append(known)
    return tuple(services)


def _judge(last: ServiceStatus, targets: Sequence[Target], recovered_seconds: float) -> ServiceStatus:
    health, message = Health.UNKNOWN, ""
    if not targets:
        message = "No scrape target of Prometheus has this host and port"
    elif down := [target for target in targets if target.health is TargetHealth.DOWN and not target.stale]:
        if recovered_seconds < max(target.scrape_seconds for target in targets):
            return last
        health, message = Health.OFFLINE, bounded(down[0].last_error or "No error is given", MESSAGE_LIMIT)
    elif any(target.stale for target in targets):
        message = "Its target is not scraped any more"
    elif any(target.health is TargetHealth.UNKNOWN for target in targets):
        return last
    else:
        health = Health.ONLINE
    return replace(last, health=health, message=message)


def state(services: Sequence[ServiceStatus]) -> State:
    """Return what `ServicesHealthy` says of them."""
    if not services:
        return State(ConditionStatus.TRUE, Reason.NO_SERVICES)
    offline = [service.name for service in services if service.health is Health.OFFLINE]
    unclear = [service.name for service in services if service.health is Health.UNKNOWN]
    if offline:
        return State(ConditionStatus.FALSE, Reason.SERVICES_OFFLINE, f"Offline: {', '.join(offline)}")
    if unclear:
        return State(ConditionStatus.UNKNOWN, Reason.SERVICES_UNKNOWN, f"Nothing is known of: {', '.join(unclear)}")
    return State(ConditionStatus.TRUE, Reason.SERVICES_ONLINE)


def without_messages(services: Iterable[ServiceStatus]) -> list[ServiceStatus]:
    """Return the services without what may change with every scrape."""
    return [replace(service, message="") for service in services]
