"""What the API server takes for a RuntimeTopology, and what it says where it refuses."""

import re

import pytest

from tests.api.kubectl import Api

GATEWAY = {"name": "Gateway", "host": "192.168.1.30", "port": 8008}


def expression(**fields: object) -> dict[str, object]:
    return {"selector": {"matchExpressions": [{"key": "tier", **fields}]}}


def service(**change: object) -> dict[str, object]:
    return {"services": [{**GATEWAY, **change}]}


ACCEPTED: dict[str, dict[str, object]] = {
    "nothing at all": {},
    "a window of 0 seconds": {"stabilizationSeconds": 0},
    "a window of an hour": {"stabilizationSeconds": 3600},
    "an empty selector": {"selector": {}},
    "a selector by label": {"selector": {"matchLabels": {"tier": "big", "example.com/rack": ""}}},
    "a selector by a key of full length": {"selector": {"matchLabels": {f"{'a.' * 126}a/{'k' * 63}": "v" * 63}}},
    "an expression with In": expression(operator="In", values=["big", ""]),
    "an expression with NotIn": expression(operator="NotIn", values=["small"]),
    "an expression with Exists": expression(operator="Exists"),
    "an expression with DoesNotExist": expression(operator="DoesNotExist", values=[]),
    "a service": service(),
    "a service on IPv6": service(host="fd00::30"),
    "a service by name": service(host="Ubuntu-IAlab.lab."),
    "two services on one port": {"services": [GATEWAY, {**GATEWAY, "name": "Live API"}]},
    "64 services": {"services": [{**GATEWAY, "name": f"{number}"} for number in range(64)]},
}

NOT_A_WHOLE_NUMBER = "spec.stabilizationSeconds in body must be of type integer"
LABEL_VALUES = "must be Kubernetes label values"
VALUES_NEEDED = "values must be given with the operators In and NotIn, and left out with Exists and DoesNotExist"
SERVICE_HOST = "host must be an IPv4 address, an IPv6 address without brackets and zone, or a DNS name"
SERVICE_NAME = "name must be one line without spaces at either end"

REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "a negative window": ({"stabilizationSeconds": -1}, "should be greater than or equal to 0"),
    "a window of more than an hour": ({"stabilizationSeconds": 3601}, "should be less than or equal to 3600"),
    "a window with a unit": ({"stabilizationSeconds": "30s"}, NOT_A_WHOLE_NUMBER),
    "a window with a fraction": ({"stabilizationSeconds": 0.5}, NOT_A_WHOLE_NUMBER),
    "a key that is no label key": (
        {"selector": {"matchLabels": {"my tier": "big"}}},
        "a key in selector.matchLabels must be a Kubernetes label key, such as tier or example.com/tier",
    ),
    "a key that is too long": (
        {"selector": {"matchLabels": {f"{'a' * 254}/{'k' * 63}": "big"}}},
        "a key in selector.matchLabels must be a Kubernetes label key, such as tier or example.com/tier",
    ),
    "a value that is no label value": (
        {"selector": {"matchLabels": {"tier": "-big"}}},
        "a value in selector.matchLabels must be a Kubernetes label value",
    ),
    "a value of 64 characters": (
        {"selector": {"matchLabels": {"tier": "v" * 64}}},
        "Too long: may not be more than 63",
    ),
    "33 labels": (
        {"selector": {"matchLabels": {f"l{number}": "" for number in range(33)}}},
        "spec.selector.matchLabels: Too many: 33: must have at most 32",
    ),
    "an expression with a bad key": (
        {"selector": {"matchExpressions": [{"key": "/tier", "operator": "Exists"}]}},
        "key must be a Kubernetes label key, such as tier or example.com/tier",
    ),
    "an expression without operator": (expression(), "operator: Required value"),
    "an operator in lower case": (
        expression(operator="in", values=["big"]),
        'Unsupported value: "in": supported values: "In", "NotIn", "Exists", "DoesNotExist"',
    ),
    "In without values": (expression(operator="In"), VALUES_NEEDED),
    "NotIn with no value": (expression(operator="NotIn", values=[]), VALUES_NEEDED),
    "Exists with values": (expression(operator="Exists", values=["big"]), VALUES_NEEDED),
    "an expression with a bad value": (expression(operator="In", values=["big!"]), LABEL_VALUES),
    "33 expressions": (
        {"selector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}] * 33}},
        "spec.selector.matchExpressions: Too many: 33: must have at most 32",
    ),
    "two services of one name": (
        {"services": [GATEWAY, {**GATEWAY, "port": 8083}]},
        'spec.services[1]: Duplicate value: {"name":"Gateway"}',
    ),
    "65 services": (
        {"services": [{**GATEWAY, "name": f"{number}"} for number in range(65)]},
        "spec.services: Too many: 65: must have at most 64",
    ),
    "a service without port": (
        {"services": [{"name": "Gateway", "host": "a"}]},
        "spec.services[0].port: Required value",
    ),
    "a service without host": ({"services": [{"name": "Gateway", "port": 1}]}, "spec.services[0].host: Required value"),
    "a service without name": ({"services": [{"host": "a", "port": 1}]}, "spec.services[0].name: Required value"),
    "a service with an empty name": (service(name=""), "spec.services[0].name in body should be at least 1 chars long"),
    "a service with a name of 64 characters": (service(name="n" * 64), "Too long: may not be more than 63"),
    "a service with a name of two lines": (service(name="Live\nAPI"), SERVICE_NAME),
    "a service on port 0": (service(port=0), "should be greater than or equal to 1"),
    "a service on port 65536": (service(port=65536), "should be less than or equal to 65535"),
    "a service at a URL": (service(host="http://192.168.1.30"), SERVICE_HOST),
    "a service at a host with a port": (service(host="192.168.1.30:8008"), SERVICE_HOST),
    "a service at an IPv6 address in brackets": (service(host="[fd00::30]"), SERVICE_HOST),
    "a service at an IPv6 address with a zone": (service(host="fe80::30%eth0"), SERVICE_HOST),
    "a service at an incomplete address": (service(host="192.168.1"), SERVICE_HOST),
    "a field in snake case": ({"stabilization_seconds": 30}, 'unknown field "spec.stabilization_seconds"'),
}


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepts(api: Api, spec: dict[str, object]) -> None:
    assert api.offer("RuntimeTopology", spec)["spec"] == {"stabilizationSeconds": 30, **spec}


def test_fills_in_a_missing_spec(api: Api) -> None:
    assert api.offer("RuntimeTopology", None)["spec"] == {"stabilizationSeconds": 30}


@pytest.mark.parametrize(("spec", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refuses(api: Api, spec: dict[str, object], message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        api.offer("RuntimeTopology", spec)
