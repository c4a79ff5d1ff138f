"""What Prometheus shows of cards becomes GpuNodes that can be applied as they are printed."""

from pathlib import Path

import pytest

from controller.discovery import manifest, marketed, propose
from controller.facts import Policy, Sample, Survey, Target, TargetHealth
from controller.manifests import read
from controller.profiles import built_in

POLICY = Policy(profiles=built_in())
GIB = 2**30


def target(host: str, port: int = 9183) -> Target:
    labels = {"job": "gpu", "instance": f"{host}:{port}"}
    return Target(f"http://{host}:{port}/metrics", host, port, labels, TargetHealth.UP, "")


def series(of: Target, name: str, value: float, /, **labels: str) -> Sample:
    return Sample(name, {"__name__": name, **of.labels, **labels}, value)


@pytest.mark.parametrize(
    ("total_gb", "size"),
    [
        pytest.param(20464 / 1024, 20, id="20464 MiB"),
        pytest.param(15.995, 16, id="G09: 15.995 GiB are a card of 16 GB"),
        pytest.param(24564 / 1024, 24, id="G09: 24564 MiB are a card of 24 GB"),
        pytest.param(45, 48, id="G09: 45 GiB are a card of 48 GB with error correction"),
        pytest.param(24, 24, id="the size itself"),
        pytest.param(36, 36, id="a size that no card is sold with stays as it is"),
        pytest.param(1.2, 1, id="of little memory the nearest number"),
    ],
)
def test_the_size_that_a_card_is_sold_with(total_gb: float, size: int) -> None:
    assert marketed(total_gb) == size


def test_a_card_is_printed_ready_to_apply_with_what_is_not_known_as_comments() -> None:
    here = target("192.168.1.60", 9835)
    temperature = series(here, "nvidia_gpu_temperature_celsius", 40, uuid="GPU-1", name="GeForce\nGTX 1080 Ti ")
    (proposal,), left_out = propose(Survey((here,), (temperature,)), POLICY)
    assert left_out == ()
    assert manifest(proposal) == """\
---
# vramGb is not known: put in the size of the card's memory, in GB.
apiVersion: runtime.ialab.dev/v1alpha1
kind: GpuNode
metadata:
  name: geforce-gtx-1080-ti-192-168-1-60
spec:
  host: 192.168.1.60
  vramGb: 1
  model: GeForce GTX 1080 Ti
  target:
    ports:
    - 9835
"""  # fmt: skip


def test_two_cards_of_one_host_get_names_and_selectors_of_their_own(tmp_path: Path) -> None:
    here = target("gpu.lab")
    samples = [
        series(here, "nvidia_gpu_memory_total_bytes", 24 * GIB, uuid=f"GPU-{card}", name="RTX 3090")
        for card in ("a", "b")
    ]
    proposals, _ = propose(Survey((here,), tuple(samples)), POLICY)
    printed = tmp_path / "gpunodes.yaml"
    printed.write_text("".join(map(manifest, proposals)))
    nodes = read([str(printed)]).nodes
    assert [(node.name, node.spec and node.spec.card.match_labels) for node in nodes] == [
        ("rtx-3090-gpu-lab", {"uuid": "GPU-a"}),
        ("rtx-3090-gpu-lab-2", {"uuid": "GPU-b"}),
    ]
    assert [node.spec for node in nodes] == [proposal.spec for proposal in proposals]


def test_a_card_that_two_exporters_show_is_one_card() -> None:
    memory, other = target("192.168.1.50", 9182), target("192.168.1.50", 9183)
    samples = (
        series(memory, "windows_gpu_info", 1, luid="7", name="RX 9070"),
        series(memory, "windows_gpu_dedicated_video_memory_size_bytes", 15.9 * GIB, luid="7"),
        series(other, "gpu_temp_c", 40),
    )
    (proposal,), _ = propose(Survey((memory, other), samples), POLICY)
    assert (proposal.name, proposal.spec.model, proposal.spec.vram_gb) == ("rx-9070-192-168-1-50", "RX 9070", 16)
    assert (proposal.spec.target.ports, proposal.spec.card.match_labels, proposal.notes) == (None, None, ())


def test_targets_without_cards_are_no_cards() -> None:
    assert propose(Survey((target("192.168.1.50"),), ()), POLICY) == ((), ())


def test_however_long_a_model_is_the_names_are_legal_and_differ() -> None:
    here = target("h" * 63)
    samples = [series(here, "nvidia_gpu_duty_cycle", 1, uuid=str(card), name="X" * 200) for card in range(11)]
    proposals, _ = propose(Survey((here,), tuple(samples)), POLICY)
    names = {proposal.name for proposal in proposals}
    assert len(names) == 11
    assert {len(name) for name in names} == {63}
    assert {len(proposal.spec.model or "") for proposal in proposals} == {128}
