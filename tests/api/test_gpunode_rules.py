"""What the API server takes for a GpuNode, and what it says where it refuses."""

import re

import pytest

from tests.api.kubectl import Api

CARD = {"host": "192.168.1.50", "vramGb": 16}
LONG_LABEL = "l" * 63

ACCEPTED: dict[str, dict[str, object]] = {
    "host and memory are all that is needed": {},
    "a host can be an IPv6 address": {"host": "fd00::50"},
    "a host can be an IPv6 address in upper case": {"host": "FD00::50"},
    "a host can be a DNS name": {"host": "inference-node-1.lab.example"},
    "a host can be a bare name": {"host": "inference-node-1"},
    "a host name can be in upper case": {"host": "Inference-Node-1.LAB"},
    "a host name can have a final dot": {"host": "inference-node-1.lab."},
    "a host name can have underscores": {"host": "gpu_box"},
    "a host name can begin with a digit": {"host": "3090-box.lab"},
    "a part of a host name can have 63 characters": {"host": f"{LONG_LABEL}.lab"},
    "a host name can have 253 characters": {"host": ".".join([LONG_LABEL] * 3 + ["l" * 61])},
    "a card can have 1 GB": {"vramGb": 1},
    "a card can have 16384 GB": {"vramGb": 16384},
    "a model can have spaces and any letters": {"model": "Radeon™ RX 9070 XT (größer)"},
    "a model can have one character": {"model": "X"},
    "a model can have 128 characters": {"model": "m" * 128},
    "a card can be expected offline": {"expectedOffline": True},
    "targets can be picked by port": {"target": {"ports": [1, 65535]}},
    "targets can be picked by job": {"target": {"job": "gpu"}},
    "targets can be picked by label": {"target": {"matchLabels": {"instance": "10.0.0.1:9182", "_rack": "7"}}},
    "targets can be picked by 16 labels": {"target": {"matchLabels": {f"l{i}": "x" * 1024 for i in range(16)}}},
    "targets can be picked by a label name of 128 characters": {"target": {"matchLabels": {"l" * 128: "x"}}},
    "a card can be told by its UUID": {"card": {"uuid": "GPU-1a2b3c4d-0000-1111-2222-333344445555"}},
    "a card can be told by a unique id in hexadecimal": {"card": {"uuid": "0x7d9f3a21"}},
    "a card can be told by its PCI address": {"card": {"pciAddress": "0000:0a:00.0"}},
    "a PCI address can be without domain": {"card": {"pciAddress": "0A:00.0"}},
    "a PCI address can have a domain of eight digits": {"card": {"pciAddress": "00000000:0A:00.0"}},
    "a card can be the first of its host": {"card": {"index": 0}},
    "a card can be told by its model": {"card": {"model": "Radeon™ RX 9070"}},
    "a card can be told in several ways at once": {"card": {"uuid": "GPU-1", "index": 1023, "matchLabels": {"a": "b"}}},
    "series can be picked by label": {"card": {"matchLabels": {"gpu": "1", "UUID": "GPU-ä/1"}}},
}

ADDRESS_OR_NAME = "host must be an IPv4 address, an IPv6 address or a DNS name"
ADDRESS_ALONE = "host is an address or a DNS name alone: leave out the scheme and the path"
NOT_COMPLETE = "host is not a complete IPv4 address: four numbers from 0 to 255 without leading zeros"
NO_BRACKETS = "host must have an IPv6 address without brackets, and no port"
NO_PORT = "host must not have a port: ports go into target.ports"
NO_SPACES = "host must not contain spaces or line breaks"
ONE_LINE = "model must be one line without spaces at either end"
EMPTY_TARGET = "target must not be empty: give ports, job or matchLabels, or leave target out"
TARGET_LABEL = "a label's name in target.matchLabels must have only letters, digits and _"
LIKE_PCI = "card.pciAddress must be like 0000:03:00.0: domain, bus, device and function"
CARD_LABEL = "a label's name in card.matchLabels must have only letters, digits and _"

REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "an empty host": ({"host": ""}, "spec.host in body should be at least 1 chars long"),
    "a host name of 254 characters": ({"host": "a." * 127}, "spec.host: Too long: may not be more than 253"),
    "a URL as host": ({"host": "http://192.168.1.50:9182/metrics"}, ADDRESS_ALONE),
    "a host with a path": ({"host": "192.168.1.50/metrics"}, ADDRESS_ALONE),
    "a network as host": ({"host": "192.168.1.0/24"}, ADDRESS_ALONE),
    "a host with a space": ({"host": "inference node"}, NO_SPACES),
    "a host with a line break at its end": ({"host": "192.168.1.50\n"}, NO_SPACES),
    "a host with a port": ({"host": "192.168.1.50:9182"}, NO_PORT),
    "a host name with a port": ({"host": "inference-node-1:9182"}, NO_PORT),
    "an IPv6 address in brackets": ({"host": "[fd00::50]"}, NO_BRACKETS),
    "an IPv6 address in brackets with a port": ({"host": "[fd00::50]:9182"}, NO_BRACKETS),
    "an IPv6 address with a zone": (
        {"host": "fe80::50%eth0"},
        "host must not have an IPv6 zone: leave out % and what follows",
    ),
    "an IPv4 address in IPv6 form": (
        {"host": "::FFFF:192.168.1.50"},
        "host must have the IPv4 address itself, not its form in IPv6",
    ),
    "an IPv6 address with too many parts": ({"host": "1:2:3:4:5:6:7:8:9"}, ADDRESS_OR_NAME),
    "an IPv4 address with three numbers": ({"host": "192.168.1"}, NOT_COMPLETE),
    "an IPv4 address with five numbers": ({"host": "192.168.1.5.0"}, NOT_COMPLETE),
    "an IPv4 address with a number over 255": ({"host": "192.168.1.500"}, NOT_COMPLETE),
    "an IPv4 address with a leading zero": ({"host": "192.168.1.050"}, NOT_COMPLETE),
    "a number in quotes as host": ({"host": "12345"}, NOT_COMPLETE),
    "a host name that ends in a number": ({"host": "gpu.50"}, ADDRESS_OR_NAME),
    "a host name with an empty part": ({"host": "inference..lab"}, ADDRESS_OR_NAME),
    "a host name with a hyphen at its end": ({"host": "inference-"}, ADDRESS_OR_NAME),
    "a host name with a part of 64 characters": ({"host": "a" * 64}, ADDRESS_OR_NAME),
    "a host name with letters beyond ASCII": ({"host": "größe.lab"}, ADDRESS_OR_NAME),
    "a wildcard as host": ({"host": "*"}, ADDRESS_OR_NAME),
    "more memory than any card has": ({"vramGb": 16385}, "should be less than or equal to 16384"),
    "an empty model": ({"model": ""}, "spec.model in body should be at least 1 chars long"),
    "a model of 129 characters": ({"model": "m" * 129}, "spec.model: Too long: may not be more than 128"),
    "a model with a space at its end": ({"model": "RX9070 "}, ONE_LINE),
    "a model of one space": ({"model": " "}, ONE_LINE),
    "a model of two lines": ({"model": "RX\n9070"}, ONE_LINE),
    "a model with a terminal's escape": ({"model": "RX\x1b[31m9070"}, ONE_LINE),
    "a word as expectedOffline": ({"expectedOffline": "yes"}, "spec.expectedOffline in body must be of type boolean"),
    "an empty target": ({"target": {}}, EMPTY_TARGET),
    "no ports": ({"target": {"ports": []}}, "spec.target.ports in body should have at least 1 items"),
    "17 ports": ({"target": {"ports": list(range(1, 18))}}, "spec.target.ports: Too many: 17: must have at most 16"),
    "a port twice": ({"target": {"ports": [9182, 9183, 9182]}}, "spec.target.ports[2]: Duplicate value: 9182"),
    "port 0": ({"target": {"ports": [0]}}, "spec.target.ports[0] in body should be greater than or equal to 1"),
    "port 65536": ({"target": {"ports": [65536]}}, "should be less than or equal to 65535"),
    "a port in quotes": ({"target": {"ports": ["9182"]}}, "spec.target.ports[0] in body must be of type integer"),
    "an empty job": ({"target": {"job": ""}}, "spec.target.job in body should be at least 1 chars long"),
    "a job of 254 characters": ({"target": {"job": "j" * 254}}, "spec.target.job: Too long: may not be more than 253"),
    "labels that match every target": (
        {"target": {"matchLabels": {}}},
        "target.matchLabels must not be empty, for it would match every target; leave it out instead",
    ),
    "a target's label name with a hyphen": ({"target": {"matchLabels": {"gpu-id": "1"}}}, TARGET_LABEL),
    "a target's label name of 129 characters": ({"target": {"matchLabels": {"l" * 129: "1"}}}, TARGET_LABEL),
    "a target's label name that Prometheus drops": (
        {"target": {"matchLabels": {"__address__": "192.168.1.50:9182"}}},
        "target.matchLabels cannot use labels that start with __, for Prometheus drops them after relabelling",
    ),
    "an empty target's label value": (
        {"target": {"matchLabels": {"rack": ""}}},
        "spec.target.matchLabels.rack in body should be at least 1 chars long",
    ),
    "a target's label value of 1025 characters": (
        {"target": {"matchLabels": {"rack": "x" * 1025}}},
        "spec.target.matchLabels.rack: Too long: may not be more than 1024",
    ),
    "17 target's labels": (
        {"target": {"matchLabels": {f"l{i}": "x" for i in range(17)}}},
        "spec.target.matchLabels: Too many: 17: must have at most 16",
    ),
    "an empty card": ({"card": {}}, "card must not be empty: give uuid, pciAddress, index, model or matchLabels"),
    "an empty UUID": ({"card": {"uuid": ""}}, "spec.card.uuid in body should be at least 1 chars long"),
    "a UUID of two words": ({"card": {"uuid": "GPU 1"}}, "card.uuid must be one word of letters, digits and - : . _ /"),
    "a PCI address without function": ({"card": {"pciAddress": "0000:0a:00"}}, LIKE_PCI),
    "a PCI domain of five digits": ({"card": {"pciAddress": "00000:0a:00.0"}}, LIKE_PCI),
    "a negative index": ({"card": {"index": -1}}, "spec.card.index in body should be greater than or equal to 0"),
    "an index as text": ({"card": {"index": "0"}}, "spec.card.index in body must be of type integer"),
    "a card's model of two lines": ({"card": {"model": "RX\n9070"}}, "card.model must be one line without spaces"),
    "labels that match every card": (
        {"card": {"matchLabels": {}}},
        "card.matchLabels must not be empty, for it would match every card of the host; leave card out instead",
    ),
    "a series' label name with a digit at its start": ({"card": {"matchLabels": {"1gpu": "1"}}}, CARD_LABEL),
    "the name of a series as its label": (
        {"card": {"matchLabels": {"__name__": "gpu_temp_c"}}},
        "card.matchLabels cannot use labels that start with __, for they name no card",
    ),
    "a number as a label's value": (
        {"card": {"matchLabels": {"gpu": 1}}},
        "spec.card.matchLabels.gpu in body must be of type string",
    ),
    "an empty series' label value": (
        {"card": {"matchLabels": {"gpu": ""}}},
        "spec.card.matchLabels.gpu in body should be at least 1 chars long",
    ),
    "a field in snake case": ({"expected_offline": True}, 'unknown field "spec.expected_offline"'),
    "a field that does not exist": ({"target": {"port": 9182}}, 'unknown field "spec.target.port"'),
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepts(api: Api, change: dict[str, object]) -> None:
    spec = {**CARD, **change}

    assert api.offer("GpuNode", spec)["spec"] == {"expectedOffline": False, **spec}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refuses(api: Api, change: dict[str, object], message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        api.offer("GpuNode", {**CARD, **change})


@pytest.mark.parametrize("field", CARD)
def test_refuses_a_card_without(api: Api, field: str) -> None:
    with pytest.raises(Exception, match=rf"spec\.{field}: Required value"):
        api.offer("GpuNode", {name: value for name, value in CARD.items() if name != field})


def test_refuses_a_card_without_spec(api: Api) -> None:
    with pytest.raises(Exception, match=r"spec: Required value"):
        api.offer("GpuNode", None)


def test_says_one_thing_about_a_bad_host(api: Api) -> None:
    with pytest.raises(Exception, match=re.escape(ADDRESS_ALONE)) as refusal:
        api.offer("GpuNode", {**CARD, "host": "http://[fe80::1%eth0]:9182/ metrics"})

    assert str(refusal.value).count("host must") == 0
