"""A service's health is that of the targets on its host and port; what is not known stays as it was."""

from collections.abc import Mapping, Sequence

import pytest

from controller.facts import Health, Policy, ServiceSpec, ServiceStatus, SourceFailure, Survey, Target, TargetHealth
from controller.matching import at
from controller.names import Reason
from controller.services import MESSAGE_LIMIT, assess, state

UP, DOWN, WAITING = TargetHealth.UP, TargetHealth.DOWN, TargetHealth.UNKNOWN
GATEWAY = ServiceSpec(name="Gateway", host="G.Lab.", port=8008)
MISSING = "No scrape target of Prometheus has this host and port"


def target(health: TargetHealth, error: str = "", *, port: int = 8008, stale: bool = False) -> Target:
    return Target(f"http://g.lab:{port}/metrics", "g.lab", port, {}, health, error, scrape_seconds=15, stale=stale)


def status(health: Health, message: str = "") -> ServiceStatus:
    return ServiceStatus(name="Gateway", host="G.Lab.", port=8008, health=health, message=message)


def seen(service: ServiceSpec, *targets: Target) -> Mapping[tuple[str, int], Sequence[Target]]:
    return at([(service.host, service.port)], Survey(targets, ()), Policy(profiles=()))


ONLINE, OFFLINE = status(Health.ONLINE), status(Health.OFFLINE, "refused")


@pytest.mark.parametrize(
    ("targets", "last", "expected"),
    [
        pytest.param([target(UP)], None, ONLINE, id="up"),
        pytest.param([target(DOWN, "refused")], ONLINE, OFFLINE, id="down"),
        pytest.param([target(UP), target(DOWN, "refused")], ONLINE, OFFLINE, id="down in one job of two"),
        pytest.param(
            [target(DOWN, "e" * 999)], ONLINE,
            status(Health.OFFLINE, "e" * (MESSAGE_LIMIT - 1) + "…"), id="a long error is cut",
        ),
        pytest.param([target(DOWN)], ONLINE, status(Health.OFFLINE, "No error is given"), id="down without a word"),
        pytest.param([], ONLINE, status(Health.UNKNOWN, MISSING), id="no target"),
        pytest.param([target(UP, port=1)], None, status(Health.UNKNOWN, MISSING), id="a target on another port"),
        pytest.param([target(WAITING)], ONLINE, ONLINE, id="not scraped yet, online before"),
        pytest.param([target(WAITING)], OFFLINE, OFFLINE, id="not scraped yet, offline before"),
        pytest.param([target(WAITING)], None, status(Health.UNKNOWN), id="not scraped yet, never judged"),
        pytest.param(
            [target(UP, stale=True)], ONLINE, status(Health.UNKNOWN, "Its target is not scraped any more"), id="stale"
        ),
    ],
)  # fmt: skip
def test_health(targets: list[Target], last: ServiceStatus | None, expected: ServiceStatus) -> None:
    assert assess([GATEWAY], [last] if last else [], seen(GATEWAY, *targets)) == (expected,)


@pytest.mark.parametrize(("seconds", "health"), [(14.9, Health.ONLINE), (15, Health.OFFLINE)])
def test_a_prometheus_that_is_back_needs_an_interval_before_a_service_is_offline(
    seconds: float, health: Health
) -> None:
    (found,) = assess([GATEWAY], [ONLINE], seen(GATEWAY, target(DOWN)), seconds)
    assert found.health is health


def test_a_service_that_moved_has_no_health_from_before() -> None:
    moved = ServiceSpec(name="Gateway", host="G.Lab.", port=8009)
    (found,) = assess([moved], [ONLINE], SourceFailure(Reason.TIMED_OUT, "slow"))
    assert (found.port, found.health) == (8009, Health.UNKNOWN)


def test_services_are_sorted_by_name() -> None:
    declared = [ServiceSpec(name=name, host="h", port=1) for name in ("Router", "Docs", "Gateway")]
    assert [one.name for one in assess(declared, [], {})] == ["Docs", "Gateway", "Router"]


@pytest.mark.parametrize(
    ("services", "said"),
    [
        pytest.param([], ("True", "NoServices", ""), id="none declared"),
        pytest.param([ONLINE, ONLINE], ("True", "ServicesOnline", ""), id="all online"),
        pytest.param(
            [ONLINE, status(Health.UNKNOWN)], ("Unknown", "ServicesUnknown", "Nothing is known of: Gateway"),
            id="one unknown",
        ),
        pytest.param(
            [status(Health.UNKNOWN), OFFLINE], ("False", "ServicesOffline", "Offline: Gateway"), id="one offline"
        ),
    ],
)  # fmt: skip
def test_the_condition(services: list[ServiceStatus], said: tuple[str, str, str]) -> None:
    assert state(services) == said
