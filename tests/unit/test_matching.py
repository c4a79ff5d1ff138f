"""A target speaks for a card by host, port, job and labels; a series is a card's by its scrape and its labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.facts import CardSelector, GpuNodeSpec, Sample, Survey, Target, TargetHealth, TargetSelector
from controller.matching import Index, normal_host

HOST = "192.168.1.50"


def target(host: str, port: int, job: str = "gpu", **labels: str) -> Target:
    labels = {"job": job, "instance": f"{host}:{port}", **labels}
    return Target(f"http://{host}:{port}/metrics", host, port, labels, TargetHealth.UP, "")


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
        pytest.param("Inference-Node-1.Lab.", "inference-node-1.lab", id="a name has no capitals and no final dot"),
    ],
)
def test_spelling_of_a_host(given_host: str, spelling: str) -> None:
    assert normal_host(given_host) == spelling


@pytest.mark.parametrize(
    ("host", "selector", "found"),
    [
        pytest.param(
            HOST, TargetSelector(), (EXPORTER, OTHER_JOB, METRICS),
            id="without a selector every target on the operator's ports speaks, in a fixed order",
        ),
        pytest.param(HOST, TargetSelector(ports=(1234,)), (STUDIO,), id="ports replace the operator's"),
        pytest.param(HOST, TargetSelector(job="gpu"), (EXPORTER, METRICS), id="a job leaves out the other jobs"),
        pytest.param(HOST, TargetSelector(match_labels={"room": "lab"}), (EXPORTER,), id="every label must be carried"),
        pytest.param(
            HOST, TargetSelector(job="node", match_labels={"room": "lab"}), (), id="all conditions must hold together"
        ),
        pytest.param("192.168.1.70", TargetSelector(), (), id="a host without a target has none"),
        pytest.param("192.168.1.5", TargetSelector(), (), id="a host that only begins alike is another host"),
    ],
)  # fmt: skip
def test_targets_of_a_card(host: str, selector: TargetSelector, found: tuple[Target, ...]) -> None:
    spec = GpuNodeSpec(host=host, vram_gb=16, target=selector)
    assert Index(Survey(TARGETS, ())).targets(spec, (9182, 9183)) == found


def test_a_host_is_found_however_it_is_spelled() -> None:
    there = target("gpu.lab", 9182)
    spec = GpuNodeSpec(host="GPU.lab.", vram_gb=16)
    assert Index(Survey((there,), ())).targets(spec, (9182,)) == (there,)


@given(st.permutations((*TARGETS, TWICE)))
def test_the_order_of_the_answer_does_not_matter(targets: list[Target]) -> None:
    spec = GpuNodeSpec(host=HOST, vram_gb=16)
    index = Index(Survey(tuple(targets), ()))
    assert index.targets(spec, (9182, 9183)) == (TWICE, EXPORTER, OTHER_JOB, METRICS)


def sample(of: Target, gpu: str) -> Sample:
    return Sample("gpu_temp_c", {**of.labels, "gpu": gpu}, 40)


FIRST, SECOND, ELSEWHERE = sample(METRICS, "0"), sample(METRICS, "1"), sample(OTHER_HOST, "0")
TWIN = sample(OTHER_JOB, "0")


@pytest.mark.parametrize(
    ("targets", "selector", "found"),
    [
        pytest.param((METRICS,), CardSelector(), (FIRST, SECOND), id="without a selector all series of the targets"),
        pytest.param((METRICS,), CardSelector(match_labels={"gpu": "1"}), (SECOND,), id="of two cards only the one"),
        pytest.param((METRICS,), CardSelector(match_labels={"gpu": "7"}), (), id="none where no series carries it"),
        pytest.param((METRICS, METRICS), CardSelector(), (FIRST, SECOND), id="a target given twice counts once"),
        pytest.param((EXPORTER,), CardSelector(), (), id="another job on the same instance is another scrape"),
        pytest.param((), CardSelector(), (), id="no target gives no series"),
    ],
)
def test_series_of_a_card(targets: tuple[Target, ...], selector: CardSelector, found: tuple[Sample, ...]) -> None:
    assert Index(Survey(TARGETS, (FIRST, ELSEWHERE, TWIN, SECOND))).samples(targets, selector) == found
