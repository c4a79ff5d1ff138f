"""A target speaks for a card by host, port, job and labels; a series is a card's by its scrape and its labels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.facts import CardSelector, GpuNode, GpuNodeSpec, Policy, Sample, Survey, Target, TargetHealth
from controller.facts import TargetSelector as Targets
from controller.matching import ADDRESS, Finding, Match, Way, look, normal_host, split_address
from controller.profiles import built_in

HOST = "192.168.1.50"
PORTS = Policy(profiles=built_in()).target_ports


def target(host: str, port: int, /, job: str = "gpu", **labels: str) -> Target:
    """Return a target of which the arguments are the scrape URL's host and port."""
    labels = {"job": job, "instance": f"{host}:{port}", **labels}
    return Target(f"http://{host}:{port}/metrics", normal_host(host), port, labels, TargetHealth.UP, "")


def card(name: str = "card", host: str = HOST, /, **spec: object) -> GpuNode:
    spec = {"host": host, "vram_gb": 16, **spec}
    return GpuNode(name=name, uid=name, generation=1, spec=GpuNodeSpec(**spec))  # type: ignore[arg-type]


def findings(nodes: Sequence[GpuNode], targets: Sequence[Target], samples: Sequence[Sample] = ()) -> dict[str, Finding]:
    return {**look(nodes, Survey(tuple(targets), tuple(samples)), Policy(profiles=built_in()))}


def match(host: str, /, *targets: Target, **spec: object) -> Match:
    return findings([card(host=host, **spec)], targets)["card"].match


def missing(host: str, /, *targets: Target, **spec: object) -> str:
    """Return what is near where no target is the card's."""
    return findings([card(host=host, **spec)], targets)["card"].missing.partition("; near it: ")[2]


METRICS, EXPORTER = target(HOST, 9183), target(HOST, 9182, room="lab")
STUDIO, OTHER_JOB, OTHER_HOST = target(HOST, 1234), target(HOST, 9182, job="node"), target("192.168.1.60", 9182)
TWICE = target(HOST, 9182, room="attic")
"""What one job may list twice: the same address with other labels."""
TARGETS = (METRICS, EXPORTER, STUDIO, OTHER_JOB, OTHER_HOST)


@pytest.mark.parametrize(
    ("given_host", "spelling"),
    [
        pytest.param("192.168.1.50", "192.168.1.50", id="an IPv4 address stays as it is"),
        pytest.param("FD00:0:0::0001", "fd00::1", id="an IPv6 address is written in its short form"),
        pytest.param("[fd00::1]", "fd00::1", id="an IPv6 address loses its brackets"),
        pytest.param("FE80::1%eth0", "fe80::1", id="an IPv6 address loses its zone"),
        pytest.param("::ffff:192.168.1.50", "192.168.1.50", id="an IPv4 address in IPv6 form is that IPv4 address"),
        pytest.param("Inference-Node-1.Lab.", "inference-node-1.lab", id="a name has no capitals and no final dot"),
    ],
)
def test_spelling_of_a_host(given_host: str, spelling: str) -> None:
    assert normal_host(given_host) == spelling


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        pytest.param("gpu.lan:9835", "gpu.lan", 9835, id="a name with a port"),
        pytest.param("gpu.lan", "gpu.lan", None, id="a name alone"),
        pytest.param("[2001:db8::10]:9835", "2001:db8::10", 9835, id="p10 an IPv6 address in brackets with a port"),
        pytest.param("[2001:db8::10]", "2001:db8::10", None, id="p10 an IPv6 address in brackets alone"),
        pytest.param("2001:DB8:0::10", "2001:db8::10", None, id="p10 an IPv6 address alone is not cut at a colon"),
        pytest.param("https://gpu.lan:9835/metrics", "gpu.lan", 9835, id="a URL"),
        pytest.param("http://[", "", None, id="a URL that is none"),
        pytest.param("gpu:" + "9" * 5000, "gpu:" + "9" * 5000, None, id="a number that is no port"),
        pytest.param("", "", None, id="nothing"),
    ],
)
def test_parts_of_an_address(text: str, host: str, port: int | None) -> None:
    assert split_address(text) == (host, port)


@pytest.mark.parametrize(
    ("host", "selector", "found"),
    [
        pytest.param(
            HOST, Targets(), (OTHER_JOB, EXPORTER, METRICS),
            id="without a selector every target on the operator's ports speaks, in a fixed order",
        ),
        pytest.param(HOST, Targets(ports=(1234,)), (STUDIO,), id="ports replace the operator's"),
        pytest.param(
            HOST, Targets(job="gpu"), (STUDIO, EXPORTER, METRICS), id="a job alone leaves out other jobs, on every port"
        ),
        pytest.param(HOST, Targets(job="gpu", ports=(9182,)), (EXPORTER,), id="a job and ports must hold together"),
        pytest.param(HOST, Targets(match_labels={"room": "lab"}), (EXPORTER,), id="every label must be carried"),
        pytest.param(HOST, Targets(job="node", match_labels={"room": "lab"}), (), id="all must hold together"),
        pytest.param("192.168.1.70", Targets(), (), id="a host without a target has none"),
        pytest.param("192.168.1.5", Targets(), (), id="a host that only begins alike is another host"),
    ],
)  # fmt: skip
def test_targets_of_a_card(host: str, selector: Targets, found: tuple[Target, ...]) -> None:
    key = [(one.scrape_url, one.labels["job"]) for one in sorted(found, key=lambda t: (t.scrape_url, t.labels["job"]))]
    got = match(host, *TARGETS, target=selector).targets
    assert sorted((one.scrape_url, one.labels["job"]) for one in got) == key


# ---- P08: every way in which a target can say on which host it is, against every way to declare it

ADDRESS_ONLY = "10.0.0.9"
SAYS: Mapping[str, tuple[Target, Way]] = {
    "ip:port as instance": (target(HOST, 9182), Way.SCRAPE_URL),
    "name:port as instance": (target(ADDRESS_ONLY, 9182, instance="gpu-1.lan:9182"), Way.INSTANCE),
    "the name alone as instance": (target(ADDRESS_ONLY, 9182, instance="gpu-1.lan"), Way.INSTANCE),
    "the short name alone as instance": (target(ADDRESS_ONLY, 9182, instance="gpu-1"), Way.INSTANCE),
    "the label host": (target(ADDRESS_ONLY, 9182, host="gpu-1.lan"), Way.HOST_LABEL),
    "the label node in upper case": (target(ADDRESS_ONLY, 9182, node="GPU-1.LAN"), Way.HOST_LABEL),
    "the name in the scrape URL": (target("gpu-1.lan", 9182, instance="x"), Way.SCRAPE_URL),
    "the discovered address": (
        target(ADDRESS_ONLY, 9182, instance="x")._replace(discovered={ADDRESS: "gpu-1.lan:9182"}), Way.ADDRESS,
    ),
    "the discovered address without a port": (
        target(ADDRESS_ONLY, 9182, instance="x")._replace(discovered={ADDRESS: "gpu-1.lan"}), Way.ADDRESS,
    ),
    "the discovered node of a pod": (
        target(ADDRESS_ONLY, 9182)._replace(discovered={"__meta_kubernetes_pod_node_name": "gpu-1.lan"}),
        Way.HOST_LABEL,
    ),
}  # fmt: skip
NAMES = {"a short name": "gpu-1", "a full name": "gpu-1.lan", "a full name with a final dot in capitals": "GPU-1.lan."}


@pytest.mark.parametrize(("one", "way"), SAYS.values(), ids=SAYS.keys())
@pytest.mark.parametrize("host", [*NAMES.values(), HOST], ids=[*NAMES, "an IPv4 address"])
def test_p08_a_host_is_found_however_the_target_names_it(host: str, one: Target, way: Way) -> None:
    is_address = one.host == HOST
    expected = ((one,), way) if is_address == (host == HOST) else ((), None)
    found = match(host, one, target("gpu-2.lan", 9182), target("192.168.1.5", 9182))
    assert (found.targets, found.way) == expected


def test_p08_the_first_way_that_finds_a_target_on_a_port_counts() -> None:
    labelled = target("10.0.0.1", 9182, instance="a", host="gpu-1")
    by_instance = target("10.0.0.2", 9182, instance="gpu-1")
    by_url, elsewhere = target("gpu-1", 9182), target("gpu-1", 9100)
    assert match("gpu-1", labelled, by_instance, by_url).targets == (by_url,)
    assert match("gpu-1", labelled, by_instance, elsewhere).targets == (by_instance,)
    assert match("gpu-1", labelled, elsewhere).targets == (labelled,)


def test_p08_the_port_in_instance_counts_before_that_of_the_scrape_url() -> None:
    behind_proxy = target("10.0.0.1", 443, instance="gpu-1:9182")
    assert match("gpu-1", behind_proxy).targets == (behind_proxy,)
    assert match("gpu-1", target("10.0.0.1", 9182, instance="gpu-1:443")).targets == ()


def test_p08_no_match_says_what_was_tried() -> None:
    found = findings([card(host="Desk")], [target("10.0.0.1", 9100)])["card"]
    assert found == Finding(
        Match(host="desk"),
        missing="no target on port 9182 or 9183 has desk as host in its scrape URL, __address__, instance or a label "
        "of host, hostname, Hostname, node, nodename, __meta_kubernetes_pod_node_name, __meta_kubernetes_node_name",
    )


AMBIGUOUS = {
    "two full names for a short one": ("gpu-1", ["gpu-1.lan", "gpu-1.office"]),
    "a full name and another one on no port of a card": ("gpu-1", ["gpu-1.lan", "gpu-1.office:80"]),
    "a short name that another full name explains as well": ("gpu-1.lan", ["gpu-1", "gpu-1.office:80"]),
}


@pytest.mark.parametrize(("host", "there"), AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_p08_a_name_that_can_stand_for_several_hosts_finds_none(host: str, there: list[str]) -> None:
    targets = [target(name.partition(":")[0], int(name.partition(":")[2] or 9182)) for name in there]
    found = match(host, *targets)
    assert (found.targets, found.rivals) == ((), ("gpu-1.lan", "gpu-1.office"))


def test_p08_a_name_as_it_is_written_is_never_ambiguous() -> None:
    exact = target("gpu-1", 9182)
    assert match("gpu-1", exact, target("gpu-1.lan", 9182), target("gpu-1.office", 9182)).targets == (exact,)


def test_p09_a_host_in_upper_case_is_the_same_host() -> None:
    there = target("gpu-pc-01.lan", 9835)
    assert match("GPU-PC-01", there, target=Targets(ports=(9835,))).targets == (there,)
    loud = target("GPU-PC-01.LAN", 9835)
    assert match("gpu-pc-01.lan", loud, target=Targets(ports=(9835,))).targets == (loud,)


@pytest.mark.parametrize("host", ["2001:db8::10", "2001:0DB8:0:0::0010"])
@pytest.mark.parametrize("instance", ["[2001:db8::10]:9182", "[2001:DB8::10]", "2001:db8:0::10"])
def test_p10_an_ipv6_address_is_found_in_any_spelling(host: str, instance: str) -> None:
    there, other = target("10.0.0.1", 9182, instance=instance), target("10.0.0.2", 9182, instance="[2001:db8::1]:9182")
    assert match(host, there, other).targets == (there,)


def test_p10_a_link_local_address_is_found_with_its_zone() -> None:
    there = target("10.0.0.1", 9182, instance="[fe80::1%eth0]:9182")
    assert match("fe80::1", there).targets == (there,)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_remote_target_that_calls_itself_localhost_is_not_on_this_machine(host: str) -> None:
    instance = f"[{host}]:9182" if ":" in host else f"{host}:9182"
    remote = target("192.168.1.60", 9182, instance=instance, node=host)._replace(discovered={ADDRESS: instance})
    assert match(host, remote).targets == ()
    assert match("192.168.1.60", remote).targets == (remote,)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5", "localhost", "::1"])
def test_a_loopback_address_is_that_address_alone(host: str) -> None:
    assert match(host, target("127.0.0.50", 9182)).targets == ()
    there = target("127.0.0.50", 9182)
    assert match("127.0.0.50", there).targets == (there,)


# ---- what is near


def test_u07_a_helper_name_of_the_host_is_named_as_a_candidate() -> None:
    found = missing("desk", target("host.minikube.internal", 9835), target=Targets(ports=(9835,)))
    assert found == "host.minikube.internal:9835 (another host)"


NEAR: dict[str, tuple[str, list[Target], str]] = {
    "the host on another port": ("gpu-1", [target("gpu-1", 9100)], "gpu-1:9100 (port 9100 is not 9182 or 9183)"),
    "a name that begins alike, on another port": (
        "gpu-1", [target("gpu-1.lan", 9100)], "gpu-1.lan:9100 (port 9100 is not 9182 or 9183)",
    ),
    "no more than three": (
        "gpu-1", [target(f"10.0.0.{n}", 9182) for n in range(9)],
        "10.0.0.0:9182 (another host), 10.0.0.1:9182 (another host), 10.0.0.2:9182 (another host)",
    ),
    "nothing": ("gpu-1", [target("10.0.0.1", 9100)], ""),
}  # fmt: skip


@pytest.mark.parametrize(("host", "targets", "near"), NEAR.values(), ids=NEAR.keys())
def test_near_a_host_without_target_is(host: str, targets: list[Target], near: str) -> None:
    assert missing(host, *targets) == near
    assert missing(host, *reversed(targets)) == near


def test_a_target_that_speaks_for_another_card_is_not_near() -> None:
    found = findings([card("a"), card("b", "192.168.1.70")], [EXPORTER, OTHER_HOST])
    assert found["b"].missing.endswith("; near it: 192.168.1.60:9182 (another host)")


# ---- jobs and foreign targets


@pytest.mark.parametrize("name", ["p11", "u03"])
def test_of_jobs_that_share_an_instance_the_configured_one_decides(name: str) -> None:
    same = f"box-{name}"
    gpu, node, cadvisor = (
        target("10.0.0.1", port, job=job, instance=same)
        for port, job in ((9835, "gpu"), (9100, "node"), (8080, "cadvisor"))
    )
    assert match(same, gpu, node, cadvisor, target=Targets(job="gpu")).targets == (gpu,)
    assert match(same, node, cadvisor, target=Targets(job="gpu")).targets == ()


def test_g15_a_pod_that_moves_to_another_address_is_found_by_its_node() -> None:
    for address in ("10.42.3.17", "10.42.3.99"):
        pod = target(address, 9182, node="gpu-node-1", pod=f"dcgm-{address[-2:]}")
        assert match("gpu-node-1", pod).targets == (pod,)


def test_u01_a_host_is_found_by_a_label_alone_and_one_without_target_is_not() -> None:
    box = target("192.0.2.3", 9835, host="bigbox")
    found = findings([card(name, name, target=Targets(ports=(9835,))) for name in ("bigbox", "laptop")], [box])
    assert [found[name].match.targets for name in ("bigbox", "laptop")] == [(box,), ()]


def test_u06_foreign_targets_of_the_same_job_on_other_ports_do_not_count() -> None:
    foreign = [
        target(HOST, 10_000 + n)._replace(health=TargetHealth.DOWN if n % 2 else TargetHealth.UP) for n in range(300)
    ]
    assert match(HOST, *foreign, METRICS).targets == (METRICS,)


hosts = st.sampled_from(["gpu-1", "gpu-1.lan", "GPU-1.office", "gpu-2.lan", HOST, "fd00::1", "localhost", "127.0.0.50"])
any_target = st.builds(
    lambda host, port, instance, label: target(host, port, instance=instance, **({"node": label} if label else {})),
    hosts,
    st.sampled_from([*PORTS, 80]),
    hosts | st.text(max_size=8),
    hosts | st.just(""),
)


@given(st.lists(any_target, max_size=8).flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))), hosts)
def test_the_order_of_the_answer_does_not_matter(both: tuple[list[Target], list[Target]], host: str) -> None:
    first, second = (findings([card(host=host)], targets) for targets in both)
    assert first == second


@given(st.permutations((*TARGETS, TWICE)))
def test_an_address_that_is_listed_twice_has_its_place_whatever_the_order(targets: list[Target]) -> None:
    assert match(HOST, *targets).targets == (TWICE, EXPORTER, OTHER_JOB, METRICS)


@given(st.lists(any_target, max_size=8), hosts)
def test_a_foreign_host_is_never_matched(targets: list[Target], host: str) -> None:
    wanted = normal_host(host)
    for found in match(host, *targets).targets:
        said = {normal_host(one) for one in (found.host, found.labels["instance"], found.labels.get("node", "")) if one}
        alike = {name for name in said if name.split(".")[0] == wanted.split(".")[0] and wanted.startswith("gpu")}
        assert wanted in said or alike


# ---- series


def sample(of: Target, gpu: str, **labels: str) -> Sample:
    return Sample("gpu_temp_c", {**of.labels, "gpu": gpu, **labels}, 40)


FIRST, SECOND, ELSEWHERE = sample(METRICS, "0"), sample(METRICS, "1"), sample(OTHER_HOST, "0")
TWIN = sample(OTHER_JOB, "0")


@pytest.mark.parametrize(
    ("targets", "selector", "found"),
    [
        pytest.param((METRICS,), CardSelector(), (FIRST, SECOND), id="without a selector all series of the targets"),
        pytest.param((METRICS,), CardSelector(match_labels={"gpu": "1"}), (SECOND,), id="of two cards only the one"),
        pytest.param((METRICS,), CardSelector(index=1), (SECOND,), id="of two cards the one with the index"),
        pytest.param((METRICS,), CardSelector(match_labels={"gpu": "7"}), (), id="none where no series carries it"),
        pytest.param((METRICS, METRICS), CardSelector(), (FIRST, SECOND), id="a target given twice counts once"),
        pytest.param((EXPORTER,), CardSelector(), (), id="another job on the same instance is another scrape"),
        pytest.param((), CardSelector(), (), id="no target gives no series"),
    ],
)
def test_series_of_a_card(targets: tuple[Target, ...], selector: CardSelector, found: tuple[Sample, ...]) -> None:
    series = (FIRST, ELSEWHERE, TWIN, SECOND)
    assert findings([card(card=selector)], targets, series)["card"].samples == found


def test_g12_a_card_that_was_replaced_is_told_by_those_that_are_there() -> None:
    new = sample(METRICS, "0", UUID="GPU-bbbb")
    node = card(card=CardSelector(uuid="GPU-aaaa"))
    found = findings([node], [METRICS], [new])["card"]
    assert (found.samples, found.others) == ((), "they have series of card uuid bbbb")
    edited = card(card=CardSelector(uuid="GPU-bbbb"))
    assert findings([edited], [METRICS], [new])["card"].samples == (new,)


def test_series_that_carry_no_such_label_say_so() -> None:
    found = findings(
        [card(card=CardSelector(uuid="GPU-a", index=0))], [METRICS], [Sample("gpu_temp_c", METRICS.labels, 1)]
    )
    assert found["card"].others == "their series carry no uuid and no index"


# ---- two GpuNodes and one card

OLD, NEW = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
SHARES = "it shares its host's state with GpuNode {}, for nothing in spec.card tells them apart"
YOUNGER = "the same card is claimed by GpuNode {}, younger, which does not count"


def claims(
    *nodes: GpuNode, targets: Sequence[Target] = (METRICS,), series: Sequence[Sample] = (FIRST, SECOND)
) -> object:
    found = findings(nodes, targets, series)
    assert findings(nodes[::-1], targets, series) == found
    return {name: (one.owner, one.note) for name, one in found.items()}


def test_p09_two_gpunodes_whose_hosts_differ_only_by_case_are_duplicates() -> None:
    there = target("gpu-pc-01.lan", 9182)
    nodes = card("a", "GPU-PC-01.lan"), card("b", "gpu-pc-01.LAN")
    assert claims(*nodes, targets=[there], series=[sample(there, "0")]) == {
        "a": ("", YOUNGER.format("b")),
        "b": ("a", ""),
    }


def test_of_two_that_claim_a_card_the_older_one_counts() -> None:
    same = CardSelector(uuid="GPU-1")
    nodes = replace(card("a", card=same), created=NEW), replace(card("b", card=same), created=OLD)
    assert claims(*nodes) == {"a": ("b", ""), "b": ("", YOUNGER.format("a"))}


@pytest.mark.parametrize(
    "second",
    [
        pytest.param({"card": CardSelector(index=0)}, id="by its index"),
        pytest.param({"card": CardSelector(match_labels={"gpu": "0"})}, id="by its label"),
        pytest.param({}, id="without naming it, on a host with one card"),
        pytest.param({"card": CardSelector(uuid="A"), "target": Targets(job="gpu")}, id="through other target fields"),
    ],
)
def test_the_same_card_named_in_another_way_is_claimed_twice(second: dict[str, object]) -> None:
    only = sample(METRICS, "0", UUID="GPU-a")
    nodes = card("a", card=CardSelector(uuid="a")), card("b", **second)
    assert claims(*nodes, series=[only]) == {"a": ("", YOUNGER.format("b")), "b": ("a", "")}


def test_u04_cards_of_a_host_with_selectors_that_differ_are_no_duplicates() -> None:
    series = [sample(METRICS, str(n)) for n in range(4)]
    nodes = [card(f"card-{n}", card=CardSelector(index=n)) for n in range(4)]
    assert claims(*nodes, series=series) == {f"card-{n}": ("", "") for n in range(4)}
    assert claims(*nodes, series=[]) == {f"card-{n}": ("", "") for n in range(4)}


@pytest.mark.parametrize(
    "left", [(FIRST, SECOND), (FIRST,), ()], ids=["both there", "one lost its series", "both lost"]
)
def test_g11_cards_of_a_host_that_nothing_tells_apart_share_its_state_and_say_so(left: tuple[Sample, ...]) -> None:
    assert claims(card("a"), card("b"), series=left) == {"a": ("", SHARES.format("b")), "b": ("", SHARES.format("a"))}


def test_g11_cards_that_are_told_apart_lose_their_series_alone() -> None:
    nodes = [card(f"card-{n}", card=CardSelector(index=n)) for n in (0, 1)]
    found = findings(nodes, [METRICS], [FIRST])
    assert [found[node.uid].samples for node in nodes] == [(FIRST,), ()]


def test_many_that_share_are_named_by_a_few_and_counted() -> None:
    found = findings([card(f"card-{n}") for n in range(6)], [METRICS])
    assert found["card-0"].note.startswith(
        "it shares its host's state with GpuNodes card-1, card-2, card-3 and 2 more, for"
    )


def test_slices_of_a_card_and_copies_for_pods_count_once() -> None:
    series = [sample(METRICS, "0", GPU_I_ID="1"), sample(METRICS, "0", GPU_I_ID="2"), sample(METRICS, "0", pod="p")]
    found = findings([card(card=CardSelector(index=0))], [METRICS], series)["card"]
    assert (found.samples, found.owner, found.note) == (tuple(series), "", "")
