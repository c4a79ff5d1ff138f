"""A failed scrape's error text is turned into the place to look at, and into nothing else."""

import pytest

from controller.facts import GpuNodeSpec, Health, Phase, Target, TargetHealth
from controller.faults import common_reason, reason
from controller.names import Reason
from controller.phases import Evidence, judge

GET = 'Get "http://192.168.1.50:9183/metrics": '
DIAL = GET + "dial tcp 192.168.1.50:9183: "

ERRORS = {
    "no route to the host": (DIAL + "connect: no route to host", Reason.HOST_UNREACHABLE),
    "no network": (DIAL + "connect: network is unreachable", Reason.HOST_UNREACHABLE),
    "no answer to the first packet": (DIAL + "i/o timeout", Reason.HOST_UNREACHABLE),
    "a name that nobody knows": (GET + "dial tcp: lookup gpu.lan: no such host", Reason.HOST_UNREACHABLE),
    "nobody listens": (DIAL + "connect: connection refused", Reason.EXPORTER_DOWN),
    "nobody listens on Windows": (
        DIAL + "connectex: No connection could be made because the target machine actively refused it.",
        Reason.EXPORTER_DOWN,
    ),
    "the connection ends at once": (GET + "EOF", Reason.EXPORTER_DOWN),
    "the connection ends in between": ("unexpected EOF", Reason.EXPORTER_DOWN),
    "the connection is cut": (GET + "read tcp 10.0.0.1:4->10.0.0.2:5: connection reset by peer", Reason.EXPORTER_DOWN),
    "an internal error": ("server returned HTTP status 500 Internal Server Error", Reason.EXPORTER_BROKEN),
    "a value that is no number": (
        'strconv.ParseFloat: parsing "N/A": invalid syntax',
        Reason.EXPORTER_BROKEN,
    ),
    "a line that is no sample, whatever it says": (
        'expected value after metric, got "EOF" while parsing: "gpu_temp connection refused x509: "',
        Reason.EXPORTER_BROKEN,
    ),
    "an unfinished answer": ("data does not end with # EOF", Reason.EXPORTER_BROKEN),
    "an HTML page": ('received unsupported Content-Type "text/html"', Reason.EXPORTER_BROKEN),
    "no credentials": ("server returned HTTP status 401 Unauthorized", Reason.ACCESS_REFUSED),
    "wrong credentials": ("server returned HTTP status 403 Forbidden", Reason.ACCESS_REFUSED),
    "an unknown authority": (
        GET + "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        Reason.ACCESS_REFUSED,
    ),
    "a slow exporter": (GET + "context deadline exceeded", Reason.SCRAPE_TIMED_OUT),
    "a wrong path": ("server returned HTTP status 404 Not Found", Reason.TARGET_DOWN),
    "words in the URL": ('Get "http://h:1/401?x509: connection refused": sample limit', Reason.TARGET_DOWN),
    "no text": ("", Reason.TARGET_DOWN),
}


@pytest.mark.parametrize(("text", "expected"), ERRORS.values(), ids=ERRORS.keys())
def test_g05_an_error_says_where_the_fault_lies(text: str, expected: Reason) -> None:
    assert reason(text) is expected


def test_errors_of_several_kinds_have_no_reason_in_common() -> None:
    refused, slow = DIAL + "connect: connection refused", GET + "context deadline exceeded"
    assert common_reason([refused, refused]) is Reason.EXPORTER_DOWN
    assert common_reason([refused, slow]) is Reason.TARGET_DOWN


@pytest.mark.parametrize(("text", "expected"), ERRORS.values(), ids=ERRORS.keys())
def test_g05_no_error_changes_the_phase(text: str, expected: Reason) -> None:
    down = Target("http://h:9183/metrics", "h", 9183, {}, TargetHealth.DOWN, text)
    verdict = judge(GpuNodeSpec(host="h", vram_gb=16), None, Evidence(targets=[down], has_series=False))
    assert (verdict.health, verdict.phase, verdict.reason) == (Health.OFFLINE, Phase.UNEXPECTED_DOWN, expected)


@pytest.mark.parametrize(
    ("expected_offline", "phase"),
    [
        pytest.param(False, Phase.UNEXPECTED_DOWN, id="which is a fault"),
        pytest.param(True, Phase.EXPECTED_OFFLINE, id="which the flag excuses like any absence"),
    ],
)
def test_g19_a_gpu_exporter_that_stopped_while_its_host_runs_is_down(
    expected_offline: bool,  # noqa: FBT001 - a column
    phase: Phase,
) -> None:
    host = Target("http://h:9182/metrics", "h", 9182, {}, TargetHealth.UP, "")
    gpu = Target("http://h:9183/metrics", "h", 9183, {}, TargetHealth.DOWN, DIAL + "connect: connection refused")
    spec = GpuNodeSpec(host="h", vram_gb=16, expected_offline=expected_offline)
    verdict = judge(spec, None, Evidence(targets=[host, gpu], has_series=False))
    assert (verdict.phase, verdict.reason) == (phase, Reason.EXPORTER_DOWN)
