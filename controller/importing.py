"""The old hand-kept JSON file, which has the plain snapshot's shape, as GpuNode manifests."""

import ipaddress
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller import names
from controller.matching import normal_host
from controller.snapshot import READINGS
from controller.texts import bounded

SIZE_LIMIT = 10 * 2**20
"""How many bytes a file may have."""

ANNOTATION = f"{names.GROUP}/imported."
"""What an annotation's name starts with that keeps an unknown key of the file."""

_LISTS = {"active_gpus": False, "inventory_gpus": True, "unexpected_down": False}  # is being off planned there?
_OBSERVED = {"status", *READINGS}
_DECLARED = {"name", "host", "vram_gb", "expected_offline"}
_NAME_LIMIT, _MODEL_LIMIT, _SHOWN_LIMIT = 63, 128, 60
_SUFFIX_LIMIT = 40

# As the CRD has them.
MODEL = re.compile(r"^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?\Z", re.ASCII)
DNS_NAME = re.compile(
    r"^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?[.])*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?[.]?\Z"
)
_NUMBER_AT_END = re.compile(r"(^|[.])[0-9]+[.]?\Z")
_VRAM_LIMIT, _HOST_LIMIT = 16384, 253
_ANNOTATION_KEY = re.compile(r"[A-Za-z0-9_.-]{0,53}[A-Za-z0-9]")  # with `imported.` at most 63 characters


class ImportFileError(Exception):
    """A file cannot be taken over; the text has one line for each fault, with the file, its list and the index."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file declares: manifests in the order of their names, and what a person should know about them."""

    manifests: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Card:
    at: str = field(compare=False)
    listed: str
    name: str
    host: str = field(compare=False)  # as the file spells it
    vram_gb: int
    expected_offline: bool
    kept: Mapping[str, str]

    @property
    def key(self) -> tuple[str, str]:
        """What tells cards apart."""
        return self.name.casefold(), normal_host(self.host)

    def differences(self, other: "_Card") -> str:
        pairs = {
            "list": (self.listed, other.listed),
            "spelling": (self.name, other.name),
            "vram_gb": (self.vram_gb, other.vram_gb),
            "expected_offline": (self.expected_offline, other.expected_offline),
            "unknown keys": (self.kept, other.kept),
        }
        return ", ".join(what for what, (one, another) in pairs.items() if one != another)


def read(source: str) -> bytes:
    """Return what a file holds, or standard input for `-`; raise ImportFileError where it cannot be read."""
    try:
        if source == "-":
            return sys.stdin.buffer.read(SIZE_LIMIT + 1)
        with open(source, "rb") as file:  # noqa: PTH123 - a Path has no bounded read
            return file.read(SIZE_LIMIT + 1)
    except (OSError, ValueError) as error:
        raise ImportFileError(f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def convert(data: bytes, file: str) -> Imported:
    """Make a GpuNode of each card in a file's three lists; raise ImportFileError with every fault there is.

    Only what people declare is taken over: the mode, each card's status and its readings are observed, and the
    operator finds them itself. The order of the lists does not matter, and the same file gives the same names again.
    """
    document = _load(data, file)
    faults: list[str] = []
    notes = [
        f"{file}: {_shown(key)} is left out: it belongs to no card" for key in document if key not in {*_LISTS, "mode"}
    ]
    if not _LISTS.keys() & document.keys():
        faults.append(f"{file}: this is no topology: it has none of {', '.join(_LISTS)}")
    cards: dict[tuple[str, str], _Card] = {}
    for listed in _LISTS:
        entries = document.get(listed, [])
        if not isinstance(entries, list):
            faults.append(f"{file}: {listed} must be a list, but it is {_shown(entries)}")
            continue
        for index, entry in enumerate(entries):
            card = _card(entry, f"{file}: {listed}[{index}]", listed, faults, notes)
            twin = cards.setdefault(card.key, card) if card else None
            if card and twin and twin is not card:
                same = f"{card.at}: {_shown(card.name)} on {card.host} is at {twin.at.removeprefix(f'{file}: ')}, too"
                if twin == card:
                    notes.append(f"{same}: it counts once")
                else:
                    faults.append(f"{same}, with another {twin.differences(card)}")
    if faults:
        raise ImportFileError("\n".join(faults))
    named = _named(cards.values())
    notes += [
        f"{card.at}: {_shown(card.name)} becomes {name}" for name, card in named.items() if name != card.name.lower()
    ]
    return Imported(tuple(_manifest(name, card) for name, card in sorted(named.items())), tuple(notes))


def _load(data: bytes, file: str) -> dict[str, Any]:
    if len(data) > SIZE_LIMIT:
        raise ImportFileError(f"{file}: it has more than {SIZE_LIMIT // 2**20} MiB")
    try:
        document = json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=_unique,
            parse_constant=_finite,
            parse_float=_finite,
            parse_int=_whole,
        )
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeError:
        raise ImportFileError(f"{file}: this is not UTF-8 text") from None
    except RecursionError:
        raise ImportFileError(f"{file}: this is nested too deeply") from None
    except ValueError as error:
        raise ImportFileError(f"{file}: this is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ImportFileError(f"{file}: this is no topology: it must be an object, but it is {_shown(document)}")
    return document


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    known = dict(pairs)
    if len(known) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"the key {_shown(twice)} stands twice in one object")
    return known


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{bounded(text, _SHOWN_LIMIT)} is no number")
    return number


def _whole(text: str) -> int:
    if len(text) > _SHOWN_LIMIT:
        raise ValueError(f"{bounded(text, _SHOWN_LIMIT)} is too large a number")
    return int(text)


def _card(entry: object, at: str, listed: str, faults: list[str], notes: list[str]) -> _Card | None:
    if not isinstance(entry, dict):
        faults.append(f"{at}: it must be an object with name, host and vram_gb, but it is {_shown(entry)}")
        return None
    name, host, size = entry.get("name"), entry.get("host"), entry.get("vram_gb")
    planned = entry.get("expected_offline", _LISTS[listed])
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    model = bounded(name, _MODEL_LIMIT) if isinstance(name, str) else ""
    if isinstance(name, str) and len(name) <= _MODEL_LIMIT and MODEL.match(name):
        model = name
    rules = {
        "name": (bool(model), "a text"),
        "host": (_is_host(host), "an IPv4 address, an IPv6 address or a DNS name, without scheme, port or path"),
        "vram_gb": (type(size) is int and 1 <= size <= _VRAM_LIMIT, f"a whole number from 1 to {_VRAM_LIMIT}"),
        "expected_offline": (isinstance(planned, bool), "true or false"),
    }
    wrong = {key: what for key, (holds, what) in rules.items() if not holds}
    for key, what in wrong.items():
        faults.append(f"{at}: {key} must be {what}, but it is {_shown(entry[key]) if key in entry else 'missing'}")
    kept = _kept(entry, at, notes)
    if wrong:
        return None
    if model != name:
        notes.append(f"{at}: the name {_shown(name)} is written as {_shown(model)}")
    if listed != "active_gpus" and planned != _LISTS[listed]:
        off = "expected_offline" if planned else "unexpected_down"
        said = f"expected_offline is {str(planned).lower()}"
        notes.append(f"{at}: {said}, unlike its list: while off, it will be {off}")
    return _Card(at, listed, model, str(host), int(str(size)), bool(planned), kept)


def _is_host(host: object) -> bool:
    if not isinstance(host, str) or not 0 < len(host) <= _HOST_LIMIT:
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bool(DNS_NAME.match(host)) and not _NUMBER_AT_END.search(host)
    return address.version == 4 or not (address.ipv4_mapped or address.scope_id)  # noqa: PLR2004 - IP's own number


def _kept(entry: Mapping[str, Any], at: str, notes: list[str]) -> dict[str, str]:
    kept = {}
    for key in entry.keys() - _DECLARED - _OBSERVED:
        value = entry[key]
        if isinstance(value, dict | list):
            notes.append(f"{at}: {_shown(key)} is left out: it has more than one value")
        elif not _ANNOTATION_KEY.fullmatch(key):
            notes.append(f"{at}: {_shown(key)} is left out: an annotation cannot be named so")
        else:
            kept[ANNOTATION + key] = value if isinstance(value, str) else json.dumps(value)
    return dict(sorted(kept.items()))


def _named(cards: Iterable[_Card]) -> dict[str, _Card]:
    """Give each card a name that the API server takes: its own, with its host and a number where others share it."""
    ordered = sorted(cards, key=lambda card: (_label(card.name), card.key))
    sharing = Counter(_label(card.name) for card in ordered)
    named = {_label(card.name): card for card in ordered if sharing[_label(card.name)] == 1}
    numbers = Counter[str]()
    for card in ordered:
        if sharing[_label(card.name)] > 1:
            name = base = _joined(_label(card.name), _label(card.host))
            while name in named:
                numbers[base] += 1
                name = _joined(base, str(numbers[base] + 1))
            named[name] = card
    return named


def _label(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_NAME_LIMIT].rstrip("-") or "gpu"


def _joined(name: str, suffix: str) -> str:
    suffix = suffix[:_SUFFIX_LIMIT].rstrip("-")
    return f"{name[: _NAME_LIMIT - 1 - len(suffix)].rstrip('-')}-{suffix}"


def _manifest(name: str, card: _Card) -> Mapping[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.GPU_NODE,
        "metadata": {"name": name, **({"annotations": dict(card.kept)} if card.kept else {})},
        "spec": {
            "host": card.host,
            "vramGb": card.vram_gb,
            "model": card.name,
            "expectedOffline": card.expected_offline,
        },
    }


def _shown(value: object) -> str:
    return bounded(json.dumps(value, ensure_ascii=False), _SHOWN_LIMIT)
