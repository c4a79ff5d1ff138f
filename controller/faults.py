"""What the error text of a failed scrape says about where the fault lies."""

import re
from collections.abc import Iterable

from controller.names import Reason

_REQUEST = re.compile(r'^\w+ "[^"]*": ')
"""How Go begins the error of a request. Its URL says nothing about the fault, whatever words it has."""

_TABLE: tuple[tuple[Reason, re.Pattern[str]], ...] = (
    # What Prometheus could not parse is quoted in the error, so this row comes before all that look for words.
    (
        Reason.EXPORTER_BROKEN,
        re.compile(
            r"while parsing|strconv\.Parse|invalid metric name|unexpected end of input|does not end with # EOF"
            r"|HTTP status 5\d\d|unsupported Content-Type|malformed HTTP|gzip: ",
            re.IGNORECASE,
        ),
    ),
    (Reason.ACCESS_REFUSED, re.compile(r"HTTP status 40[13]\b|x509: |certificate|tls: ", re.IGNORECASE)),
    (
        Reason.HOST_UNREACHABLE,
        re.compile(
            r"no route to host|(network|host) is (unreachable|down)|no such host|server misbehaving|dial .*i/o timeout",
            re.IGNORECASE,
        ),
    ),
    (Reason.SCRAPE_TIMED_OUT, re.compile(r"deadline exceeded|Client\.Timeout|i/o timeout", re.IGNORECASE)),
    (
        Reason.EXPORTER_DOWN,
        re.compile(r"connection refused|actively refused|connection reset|broken pipe|\bEOF$", re.IGNORECASE),
    ),
)

REASONS = (*(reason for reason, _ in _TABLE), Reason.TARGET_DOWN)
"""Every reason that a failed scrape can have."""


def reason(last_error: str) -> Reason:
    """Return the reason that a target's last error stands for; the first row that fits counts, TargetDown is the rest.

    It says where to look, and changes no phase: a target that is down is down for whatever reason.
    """
    text = _REQUEST.sub("", last_error)
    return next((reason for reason, pattern in _TABLE if pattern.search(text)), Reason.TARGET_DOWN)


def common_reason(last_errors: Iterable[str]) -> Reason:
    """Return the reason that all errors have in common, else TargetDown."""
    reasons = {reason(error) for error in last_errors}
    return reasons.pop() if len(reasons) == 1 else Reason.TARGET_DOWN
