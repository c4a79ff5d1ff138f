"""An explanation shows what was looked at, what came of it, and no more than fits on a screen."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller import phases
from controller.__main__ import main
from controller.explain import SHOWN, explain
from controller.facts import CardSelector, GpuNode, GpuNodeSpec, Instant, Policy, Sample, Survey, Target, TargetHealth
from controller.names import Reason
from controller.profiles import built_in

NOW = Instant(datetime(2026, 1, 1, 12, tzinfo=UTC), 100)
HOST = "192.168.1.50"


def card(name: str, host: str = HOST, card: CardSelector | None = None) -> GpuNode:
    spec = GpuNodeSpec(host=host, vram_gb=16, card=card or CardSelector())
    return GpuNode(name=name, uid=name, generation=1, spec=spec)


def target(host: str, port: int) -> Target:
    labels = {"job": "gpu", "instance": f"{host}:{port}"}
    return Target(f"http://{host}:{port}/metrics", host, port, labels, TargetHealth.UP, "")


METRICS = target(HOST, 9183)


def series(name: str, value: float, gpu: str = "0") -> Sample:
    return Sample(name, {"__name__": name, **METRICS.labels, "gpu": gpu}, value)


def explained(node: GpuNode, targets: list[Target], samples: list[Sample], *others: GpuNode) -> str:
    return explain(node, (node, *others), Survey(tuple(targets), tuple(samples)), Policy(profiles=built_in()), NOW)


def test_an_online_card_is_explained_from_its_targets_to_the_rule() -> None:
    samples = [
        series("gpu_temp_c", 40),
        series("gpu_temp_c", 38),
        series("gpu_power_w", -1),
        series("gpu_temp_c", 50, "1"),
    ]
    node = card("rx9070", card=CardSelector(index=0))
    assert (
        explained(node, [METRICS, target(HOST, 1234), target("10.0.0.1", 9182)], samples)
        == """\
card      rx9070
phase     online
reason    TargetsUp
rule      all targets are up, and series are the card's: online
message   The target is up

targets: 1 of 3 speak for the card
   yes   http://192.168.1.50:9183/metrics   up   the scrape URL
   no    http://192.168.1.50:1234/metrics   up   the scrape URL   port 1234 is not 9182 or 9183
   1 on other hosts

series: 3 of the 4 that these targets gave are the card's
   gpuTempC   38, not the one that counts   gpu_temp_c{gpu="0", instance="192.168.1.50:9183", job="gpu"} 38
   gpuTempC   40                            gpu_temp_c{gpu="0", instance="192.168.1.50:9183", job="gpu"} 40
   none       cannot be true                gpu_power_w{gpu="0", instance="192.168.1.50:9183", job="gpu"} -1"""
    )


def test_a_card_without_target_is_explained_by_what_is_near() -> None:
    text = explained(card("a", "desk"), [target("desk.lan", 9100), METRICS], [])
    assert "\nreason    TargetMissing\n" in text
    assert (
        "\ntargets: 0 of 2 speak for the card\n   2 on other hosts\n   no target on port 9182 or 9183 has desk" in text
    )
    assert "; near it: desk.lan:9100 (port 9100 is not 9182 or 9183), 192.168.1.50:9183 (another host)\n" in text
    assert text.endswith("\nseries: 0 of the 0 that these targets gave are the card's")


def test_a_target_that_only_a_later_way_finds_is_explained() -> None:
    proxied = target("10.0.0.9", 9182)
    proxied = proxied._replace(labels={**proxied.labels, "host": HOST})
    text = explained(card("a"), [proxied, METRICS], [])
    assert (
        "   no    http://10.0.0.9:9182/metrics       up   a host label     the scrape URL finds others first\n" in text
    )


def test_hosts_that_can_be_meant_are_explained() -> None:
    text = explained(card("a", "box"), [target("box.lan", 9182), target("box.office", 9182)], [])
    assert text.count("the scrape URL   box.lan and box.office can be meant\n") == 2


def test_a_card_that_is_claimed_twice_is_explained_with_the_other() -> None:
    text = explained(card("b"), [METRICS], [series("gpu_temp_c", 40)], card("a", HOST, CardSelector(index=0)))
    assert "\nreason    CardClaimedTwice\n" in text
    assert "\nmessage   GpuNode a is older and claims the same card; " in text


def test_ten_thousand_foreign_targets_are_counted() -> None:
    foreign = [target(f"10.0.{n // 256}.{n % 256}", 9182) for n in range(10_000)]
    text = explained(card("a"), [METRICS, *foreign], [])
    assert "\ntargets: 1 of 10,001 speak for the card\n" in text
    assert "\n   10,000 on other hosts\n" in text


def test_many_targets_and_series_of_a_host_are_shown_in_part() -> None:
    targets = [METRICS, *(target(HOST, 10_000 + n) for n in range(300))]
    text = explained(card("a"), targets, [series("gpu_temp_c", n, str(n)) for n in range(100)])
    assert f"\n   and {301 - SHOWN} more\n" in text
    assert text.endswith(f"\n   and {100 - SHOWN} more")
    assert len(text.splitlines()) < 2 * SHOWN + 20


def test_a_declaration_that_cannot_be_read_is_explained() -> None:
    node = GpuNode(name="a", uid="a", generation=1, spec=None, problem="spec.host: Field required")
    assert (
        explained(node, [METRICS], [])
        == """\
card      a
phase     unknown
reason    InvalidSpec
rule      the declaration cannot be read: unknown
message   spec.host: Field required; edit this GpuNode"""
    )


def test_every_reason_of_a_card_has_its_rule() -> None:
    reasons = [*Reason]
    of_cards = reasons[: reasons.index(Reason.INVALID_SPEC) + 1]
    assert {*phases.RULES} == {*of_cards, Reason.SOURCE_UNAVAILABLE}


@pytest.mark.parametrize(
    ("count", "names"),
    [
        pytest.param(2, "card-00, card-01", id="all"),
        pytest.param(25, f"{', '.join(f'card-{n:02}' for n in range(20))} and 5 more", id="or some of many"),
    ],
)
def test_an_unknown_name_is_told_with_the_names_that_exist(
    count: int, names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = "apiVersion: runtime.ialab.dev/v1alpha1\nkind: GpuNode\nmetadata: {{name: card-{:02}}}\n"
    manifest += "spec: {{host: 192.168.1.50, vramGb: 16}}\n---\n"
    file = tmp_path / "cards.yaml"
    file.write_text("".join(manifest.format(n) for n in range(count)))
    code = main(["explain", "nobody", "--filename", str(file), "--prometheus", "http://127.0.0.1:9"])
    assert (code, *capsys.readouterr()) == (1, "", f"gpu-topology: there is no GpuNode 'nobody'; there is {names}\n")
