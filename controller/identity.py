"""Which card a series is about: the labels in which exporters say so, and the one form in which values are compared."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from controller.facts import CardSelector

_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})[._]([0-7])")
_INDEX = re.compile(r"(?:card|gpu|nvidia|/gpu-[a-z]+/)?(\d{1,4})")
_DEVICE = re.compile(r"(?:card|gpu|nvidia)?\d+|0x[0-9a-f]+")
_WORD = re.compile(r"[^\W_]+")
_MAKERS_WORDS = {"amd", "corporation", "geforce", "graphics", "inc", "intel", "nvidia", "r", "radeon", "tm"}
_NOTHING = {"", "[n/a]", "n/a", "na", "none", "unknown", "<<<null>>>"}


class Field(NamedTuple):
    """A way to name a card: the labels that carry it, best first, and how a value is written to be compared."""

    name: str
    """As a manifest spells it."""
    normal: Callable[[str], str]
    """Of a value in lower case; empty where it names no card in this way, as a model's name in the label `gpu`."""
    labels: tuple[str, ...]

    def of(self, labels: Mapping[str, str]) -> str:
        """Return what labels say, in the form that is compared; empty where they say nothing.

        Prometheus puts `exported_` before a label of the exporter that the target has too; the exporter knows better.
        """
        for label in self.labels:
            if (value := labels.get(label)) and (normal := self.read(value)):
                return normal
        return ""

    def read(self, value: str) -> str:
        """Return a value in the form that is compared."""
        lower = value.strip().lower()
        return "" if lower in _NOTHING else self.normal(lower)


def _uuid(value: str) -> str:
    return value.removeprefix("gpu-").removeprefix("0x")


def _pci_address(value: str) -> str:
    """Return domain:bus:device.function; of a path through a bridge, as hwmon's `chip` has it, the device itself."""
    found = _PCI.findall(value)
    if not found:
        return ""
    domain, bus, device, function = found[-1]
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}"


def _index(value: str) -> str:
    found = _INDEX.fullmatch(value)
    return str(int(found[1])) if found else ""


def _model(value: str) -> str:
    if _DEVICE.fullmatch(value):
        return ""
    words = _WORD.findall(value)
    return "".join(word for word in words if word not in _MAKERS_WORDS) or "".join(words)


def _field(name: str, normal: Callable[[str], str], labels: str) -> Field:
    return Field(name, normal, tuple(f"{prefix}{label}" for label in labels.split() for prefix in ("exported_", "")))


FIELDS: Mapping[str, Field] = {
    "uuid": _field("uuid", _uuid, "UUID uuid gpu_uuid gpu_unique_id unique_id serial_number"),
    "pci_address": _field("pciAddress", _pci_address, "pci_bus_id pci_bdf pci chip"),
    "index": _field("index", _index, "gpu index gpu_index gpu_id minor_number card hw_instance hardwareId device name"),
    "model": _field(
        "model",
        _model,
        "modelName card_model hardware hardwareName gpu_name device_name dev_name hw_model productname card_series "
        "name device gpu",
    ),
}
"""By field of CardSelector: the labels of all exporters, which differ in spelling, case and prefix."""


def wanted(selector: CardSelector) -> Mapping[str, str]:
    """Return what a selector asks for of a card's identity, by field, in the form that is compared."""
    given = {name: getattr(selector, name) for name in FIELDS}
    return {name: FIELDS[name].read(str(value)) for name, value in given.items() if value is not None}


def fits(labels: Mapping[str, str], asked: Mapping[str, str]) -> bool:
    """Tell whether labels carry each value that is asked for; a label that is not there fits nothing."""
    return all(value and FIELDS[name].of(labels) == value for name, value in asked.items())


def described(series: Iterable[Mapping[str, str]], asked: Iterable[str]) -> list[str]:
    """Say what series carry of the fields that are asked for, once for each card, sorted."""
    fields = [FIELDS[name] for name in asked]
    cards = {tuple((field.name, value) for field in fields if (value := field.of(labels))) for labels in series}
    return sorted(" ".join(f"{name} {value}" for name, value in card) for card in cards if card)
