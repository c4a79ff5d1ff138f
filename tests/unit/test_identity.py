"""A card is recognised by what its series say, however an exporter spells it."""

import pytest

from controller.facts import CardSelector
from controller.identity import FIELDS, described, fits, wanted

UUID = "GPU-1A2b3c4d-0000-1111-2222-333344445555"
BARE = "1a2b3c4d-0000-1111-2222-333344445555"

CARRIED = {
    "dcgm-exporter's UUID": ("uuid", {"UUID": UUID}, BARE),
    "a UUID in lower case without prefix": ("uuid", {"uuid": BARE}, BARE),
    "a unique id in hexadecimal": ("uuid", {"unique_id": "0xAB12"}, "ab12"),
    "a UUID that the exporter does not know": ("uuid", {"uuid": "N/A"}, ""),
    "a PCI address of eight digits": ("pci_address", {"pci_bus_id": "00000000:0A:00.0"}, "0000:0a:00.0"),
    "a PCI address without domain": ("pci_address", {"pci_bdf": "0a:00.0"}, "0000:0a:00.0"),
    "a PCI address of hwmon": ("pci_address", {"chip": "0000:0a:00_0"}, "0000:0a:00.0"),
    "a PCI address of hwmon behind a bridge": (
        "pci_address", {"chip": "0000:02:00_0_0000:03:00_0"}, "0000:03:00.0",
    ),
    "a chip on no PCI bus": ("pci_address", {"chip": "platform_coretemp_0"}, ""),
    "an index": ("index", {"gpu": "01"}, "1"),
    "an index after a word": ("index", {"card": "card1"}, "1"),
    "an index at the end of a path": ("index", {"hardwareId": "/gpu-amd/0"}, "0"),
    "an index beside a label that has the model's name": ("index", {"gpu": "RX 9070", "index": "2"}, "2"),
    "a device id, which is no index": ("index", {"gpu_id": "0x744c", "name": "card0"}, "0"),
    "no card in an empty label": ("index", {"card": ""}, ""),
    "a model with its maker's words": ("model", {"modelName": "NVIDIA GeForce RTX 4080 SUPER"}, "rtx4080super"),
    "a model with trademarks": ("model", {"hardware": "AMD Radeon(TM) RX 9070"}, "rx9070"),
    "a model of maker's words alone": ("model", {"name": "AMD Radeon Graphics"}, "amdradeongraphics"),
    "a device's number, which is no model": ("model", {"device": "nvidia0", "gpu": "0"}, ""),
    "what the exporter says before what the target says": ("index", {"gpu": "0", "exported_gpu": "1"}, "1"),
}  # fmt: skip


@pytest.mark.parametrize(("field", "labels", "value"), CARRIED.values(), ids=CARRIED.keys())
def test_labels_carry(field: str, labels: dict[str, str], value: str) -> None:
    assert FIELDS[field].of(labels) == value


FOUND = {
    "g14 a UUID with prefix against a bare label": (CardSelector(uuid=UUID), {"uuid": BARE}, True),
    "g14 a bare UUID against a label with prefix": (CardSelector(uuid=BARE), {"UUID": UUID}, True),
    "another UUID": (CardSelector(uuid="GPU-ffff"), {"UUID": UUID}, False),
    "a short PCI address": (CardSelector(pci_address="0A:00.0"), {"pci_bus_id": "00000000:0A:00.0"}, True),
    "a model without spaces and maker": (CardSelector(model="RX9070"), {"card_model": "AMD Radeon RX 9070"}, True),
    "a model that only begins alike": (CardSelector(model="RX9070"), {"card_model": "AMD Radeon RX 9070 XT"}, False),
    "all fields that agree": (CardSelector(index=1, uuid=UUID), {"gpu": "1", "UUID": UUID}, True),
    "fields of which one disagrees": (CardSelector(index=0, uuid=UUID), {"gpu": "1", "UUID": UUID}, False),
    "an index against series without one": (CardSelector(index=0), {"job": "gpu"}, False),
    "nothing asked for": (CardSelector(), {"job": "gpu"}, True),
}


@pytest.mark.parametrize(("selector", "labels", "found"), FOUND.values(), ids=FOUND.keys())
def test_a_selector_finds(selector: CardSelector, labels: dict[str, str], found: bool) -> None:  # noqa: FBT001 - a column
    assert fits(labels, wanted(selector)) is found


def test_each_card_is_said_once_in_order() -> None:
    series = [{"gpu": "1", "UUID": "b"}, {"gpu": "0", "UUID": "a"}, {"gpu": "0", "UUID": "a", "pod": "p"}, {}]
    assert described(series, ["uuid", "index"]) == ["uuid a index 0", "uuid b index 1"]
