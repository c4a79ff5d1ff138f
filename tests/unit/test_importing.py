"""The old JSON file becomes GpuNodes that give its state back; what is wrong with it is said, and nothing is done."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller import importing, manifests, views
from controller.facts import Instant, Phase, Policy, Sample, Survey, Target, TargetHealth
from controller.matching import normal_host
from controller.modes import compute_mode
from controller.plan import Plan
from controller.profiles import built_in
from controller.snapshot import READINGS

LISTS = ("active_gpus", "inventory_gpus", "unexpected_down")
START = Instant(datetime(2026, 1, 1, 12, tzinfo=UTC), 0)
LAB = {
    "mode": "degraded_single_gpu",
    "active_gpus": [
        {
            "name": "RX9070",
            "host": "192.168.1.50",
            "vram_gb": 16,
            "status": "online",
            "expected_offline": False,
            "gpu_temp_c": 32.0,
            "gpu_load_pct": 0.0,
            "gpu_power_w": 49.0,
            "gpu_fan_rpm": 950.0,
        }
    ],
    "inventory_gpus": [
        {
            "name": "RX7900XT",
            "host": "192.168.1.60",
            "vram_gb": 20,
            "status": "expected_offline",
            "expected_offline": True,
        }
    ],
    "unexpected_down": [],
}


def entry(name: object = "RX9070", host: object = "192.168.1.50", **more: object) -> dict[str, object]:
    return {"name": name, "host": host, "vram_gb": 16, **more}


def take(document: object) -> importing.Imported:
    return importing.convert(json.dumps(document).encode(), "old.json")


def names(document: object) -> dict[tuple[str, str], str]:
    return {
        (manifest["spec"]["model"], manifest["spec"]["host"]): manifest["metadata"]["name"]
        for manifest in take(document).manifests
    }


def test_the_file_of_the_lab_becomes_its_two_cards() -> None:
    imported = take(LAB)
    assert (
        views.as_yaml(imported.manifests)
        == """\
---
apiVersion: runtime.ialab.dev/v1alpha1
kind: GpuNode
metadata:
  name: rx7900xt
spec:
  host: "192.168.1.60"
  vramGb: 20
  model: RX7900XT
  expectedOffline: true
---
apiVersion: runtime.ialab.dev/v1alpha1
kind: GpuNode
metadata:
  name: rx9070
spec:
  host: "192.168.1.50"
  vramGb: 16
  model: RX9070
  expectedOffline: false"""
    )
    assert imported.notes == ()


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        pytest.param(
            [("RX 7900 XT", "a")],
            {("RX 7900 XT", "a"): "rx-7900-xt"},
            id="what a name cannot have becomes a hyphen",
        ),
        pytest.param([("--RTX__4090 (2)!", "a")], {("--RTX__4090 (2)!", "a"): "rtx-4090-2"}, id="hyphens are few"),
        pytest.param([("显卡", "a")], {("显卡", "a"): "gpu"}, id="a name of which nothing is left"),
        pytest.param([("x" * 62 + "-yz", "a")], {("x" * 62 + "-yz", "a"): "x" * 62}, id="a long name is cut"),
        pytest.param(
            [("RX9070", "192.168.1.50"), ("RX9070", "192.168.1.51")],
            {
                ("RX9070", "192.168.1.50"): "rx9070-192-168-1-50",
                ("RX9070", "192.168.1.51"): "rx9070-192-168-1-51",
            },
            id="cards of one name go by their hosts",
        ),
        pytest.param(
            [("RX 9070", "a"), ("RX-9070", "a"), ("RX/9070", "a")],
            {("RX 9070", "a"): "rx-9070-a", ("RX-9070", "a"): "rx-9070-a-2", ("RX/9070", "a"): "rx-9070-a-3"},
            id="where hosts do not tell them apart, numbers do",
        ),
        pytest.param(
            [("x", "a"), ("x", "b"), ("x-a", "c")],
            {("x", "a"): "x-a-2", ("x", "b"): "x-b", ("x-a", "c"): "x-a"},
            id="a card that shares its name with nobody keeps it",
        ),
        pytest.param(
            [("x" * 63, "a" * 60), ("x" * 63, "a" * 61)],
            {
                ("x" * 63, "a" * 60): f"{'x' * 22}-{'a' * 40}",
                ("x" * 63, "a" * 61): f"{'x' * 22}-{'a' * 38}-2",
            },
            id="with host and number a name still fits",
        ),
    ],
)
def test_names(cards: list[tuple[str, str]], expected: dict[tuple[str, str], str]) -> None:
    assert names({"active_gpus": [entry(name, host) for name, host in cards]}) == expected


def test_an_annotation_keeps_an_unknown_key_and_a_note_tells_of_what_is_left_out() -> None:
    card = entry(slot=3, note="second shelf", ecc=True, since=None, watts=1.5, tags=["a"], **{"bad key": 1, "_": 2})
    imported = take({"active_gpus": [card], "updated_by": "anna"})
    assert imported.manifests[0]["metadata"]["annotations"] == {
        "runtime.ialab.dev/imported.ecc": "true",
        "runtime.ialab.dev/imported.note": "second shelf",
        "runtime.ialab.dev/imported.since": "null",
        "runtime.ialab.dev/imported.slot": "3",
        "runtime.ialab.dev/imported.watts": "1.5",
    }
    assert sorted(imported.notes) == [
        'old.json: "updated_by" is left out: it belongs to no card',
        'old.json: active_gpus[0]: "_" is left out: an annotation cannot be named so',
        'old.json: active_gpus[0]: "bad key" is left out: an annotation cannot be named so',
        'old.json: active_gpus[0]: "tags" is left out: it has more than one value',
    ]


@pytest.mark.parametrize(
    ("document", "notes"),
    [
        pytest.param(
            {"active_gpus": [entry(), entry(status="online", gpu_temp_c=40.0)]},
            ['active_gpus[1]: "RX9070" on 192.168.1.50 is at active_gpus[0], too: it counts once'],
            id="the same card twice counts once, whatever its readings",
        ),
        pytest.param(
            {"active_gpus": [entry("RX 9070\n")]},
            [
                'active_gpus[0]: the name "RX 9070\\n" is written as "RX 9070"',
                'active_gpus[0]: "RX 9070" becomes rx-9070',
            ],
            id="a name that is no line becomes one",
        ),
        pytest.param(
            {"inventory_gpus": [entry(expected_offline=False)]},
            ["inventory_gpus[0]: expected_offline is false, unlike its list: while off, it will be unexpected_down"],
            id="a flag that contradicts its list wins",
        ),
        pytest.param({"active_gpus": []}, [], id="a file without cards"),
        pytest.param({"active_gpus": [entry(vram_gb=16.0)]}, [], id="a whole number with a decimal point"),
    ],
)
def test_notes(document: object, notes: list[str]) -> None:
    assert list(take(document).notes) == [f"old.json: {note}" for note in notes]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [("active_gpus", False), ("inventory_gpus", True), ("unexpected_down", False)],
)
def test_where_an_entry_does_not_say_whether_being_off_is_planned_its_list_does(listed: str, *, expected: bool) -> None:
    assert take({listed: [entry()]}).manifests[0]["spec"]["expectedOffline"] is expected


HOST_RULE = "host must be an IPv4 address, an IPv6 address or a DNS name, without scheme, port or path"


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        pytest.param(
            {"active_gpus": [entry(host="http://192.168.1.50")]},
            [f'active_gpus[0]: {HOST_RULE}, but it is "http://192.168.1.50"'],
            id="a URL is no host",
        ),
        pytest.param(
            {"active_gpus": [{"name": "RX9070", "vram_gb": 16}]},
            [f"active_gpus[0]: {HOST_RULE}, but it is missing"],
            id="a card needs a host",
        ),
        pytest.param(
            {"unexpected_down": [entry(), entry(name=7, host="b", vram_gb=0, expected_offline="no")]},
            [
                "unexpected_down[1]: name must be a text, but it is 7",
                "unexpected_down[1]: vram_gb must be a whole number from 1 to 16384, but it is 0",
                'unexpected_down[1]: expected_offline must be true or false, but it is "no"',
            ],
            id="every fault of a card is said",
        ),
        pytest.param(
            {"active_gpus": "none", "inventory_gpus": ["RX9070"]},
            [
                'active_gpus must be a list, but it is "none"',
                'inventory_gpus[0]: it must be an object with name, host and vram_gb, but it is "RX9070"',
            ],
            id="lists of cards are lists of objects",
        ),
        pytest.param(
            {"active_gpus": [entry()], "inventory_gpus": [entry("rx9070", vram_gb=20, slot=1)]},
            [
                (
                    'inventory_gpus[0]: "rx9070" on 192.168.1.50 is at active_gpus[0], too, with another list,'
                    " spelling, vram_gb, expected_offline, unknown keys"
                )
            ],
            id="one card cannot be listed in two ways",
        ),
        pytest.param(
            {"gpus": []},
            ["this is no topology: it has none of active_gpus, inventory_gpus, unexpected_down"],
            id="another file",
        ),
        pytest.param([entry()], ["this is no topology: it must be an object, but it is [{"], id="a bare list"),
        pytest.param(
            {"active_gpus": [entry("\x1b\u202e")]},
            ['active_gpus[0]: name must be a text, but it is "\\u001b"'],
            id="a name of control characters alone is none, and does not reach the terminal",
        ),
    ],
)
def test_a_fault_is_said_with_its_list_and_index(document: object, faults: list[str]) -> None:
    with pytest.raises(importing.ImportFileError) as caught:
        take(document)
    lines = str(caught.value).splitlines()
    assert [line[: len(f"old.json: {fault}")] for line, fault in zip(lines, faults, strict=True)] == [
        f"old.json: {fault}" for fault in faults
    ]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        pytest.param(b"", "this is not JSON: Expecting value: line 1 column 1 (char 0)", id="nothing"),
        pytest.param(
            b'{"mode": 1, "mode": 2}',
            'this is not JSON: the key "mode" stands twice in one object',
            id="a key twice in one object",
        ),
        pytest.param(b'{"a": NaN}', "this is not JSON: NaN is no number", id="NaN"),
        pytest.param(b'{"a": 1e999}', "this is not JSON: 1e999 is no number", id="a number beyond all bounds"),
        pytest.param(
            b"1" * 5000, f"this is not JSON: {'1' * 59}… is too large a number", id="a number with thousands of digits"
        ),
        pytest.param(b"[" * 100_000, "this is nested too deeply", id="deep nesting"),
        pytest.param(b'{"a": "\xff"}', "this is not UTF-8 text", id="another encoding"),
        pytest.param(b'{"a": "\\ud800"}', "this is not UTF-8 text", id="half of a surrogate pair"),
        pytest.param(b" " * (importing.SIZE_LIMIT + 1), "it has more than 10 MiB", id="too large a file"),
    ],
)
def test_what_is_no_json_is_refused_in_one_line(data: bytes, fault: str) -> None:
    with pytest.raises(importing.ImportFileError) as caught:
        importing.convert(data, "old.json")
    assert str(caught.value) == f"old.json: {fault}"


def test_a_byte_order_mark_does_no_harm() -> None:
    assert importing.convert(b"\xef\xbb\xbf" + json.dumps(LAB).encode(), "old.json") == take(LAB)


def test_a_file_is_read_no_further_than_it_may_be_large(tmp_path: Path) -> None:
    assert len(importing.read("/dev/zero")) == importing.SIZE_LIMIT + 1
    with pytest.raises(importing.ImportFileError, match=f"^{tmp_path}: cannot be read: Is a directory$"):
        importing.read(str(tmp_path))


def test_models_and_hosts_are_checked_by_the_rules_of_the_crd() -> None:
    crd = yaml.safe_load((Path(__file__).parents[2] / "crds" / "gpunodes.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert f"self.matches('{importing.DNS_NAME.pattern[:-2]}$')" in str(
        spec["host"]["x-kubernetes-validations"][0]["rule"]
    )
    rule = spec["model"]["x-kubernetes-validations"][0]["rule"].replace("[:cntrl:]", r"\x00-\x1f\x7f")
    assert rule.replace(r"\\", "\\") == f"self.matches('{importing.MODEL.pattern[:-2]}$')"


# ---- there and back again

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(importing.MODEL.match)
MODELS = TEXTS | st.sampled_from(["RX9070", "rx9070", "RX 9070", "RX-9070", "1e3", "yes", "0x10", "~", "显卡"])
HOSTS = st.sampled_from(["192.168.1.50", "192.168.1.51", "node-1", "Node-1.", "node.1.example", "fd00::1", "1e3", "a"])


@st.composite
def old_files(draw: st.DrawFn) -> tuple[dict[str, Any], frozenset[str]]:
    """Return a file as the operator would have written it, and the hosts that are up."""
    cards = draw(
        st.lists(
            st.tuples(MODELS, HOSTS, st.integers(1, 16384), st.booleans()),
            unique_by=lambda card: (card[0].casefold(), normal_host(card[1])),
            max_size=8,
        )
    )
    hosts = sorted({normal_host(host) for _, host, _, _ in cards})
    up = draw(st.frozensets(st.sampled_from(hosts))) if hosts else frozenset[str]()
    document: dict[str, Any] = {name: [] for name in LISTS}
    for model, host, vram_gb, planned in draw(st.permutations(cards)):
        online = normal_host(host) in up
        phase = Phase.ONLINE if online else Phase.EXPECTED_OFFLINE if planned else Phase.UNEXPECTED_DOWN
        card = {"name": model, "host": host, "vram_gb": vram_gb, "status": phase, "expected_offline": planned}
        readings = dict.fromkeys(READINGS, 30.0) if online else {}
        document[LISTS[[Phase.ONLINE, Phase.EXPECTED_OFFLINE, Phase.UNEXPECTED_DOWN].index(phase)]].append(
            card | readings
        )
    entries = [card["status"] for name in LISTS for card in document[name]]
    return {"mode": compute_mode(entries), **document}, up


def world(hosts: set[str], up: frozenset[str]) -> Survey:
    labels = {host: {"job": "gpu-metrics", "instance": f"{host}:9183"} for host in hosts}
    return Survey(
        tuple(
            Target(
                f"http://{host}:9183/metrics",
                normal_host(host),
                9183,
                labels[host],
                TargetHealth.UP if host in up else TargetHealth.DOWN,
                "",
            )
            for host in sorted(hosts)
        ),
        tuple(Sample(name, labels[host], 30.0) for host in sorted(up) for name in READINGS),
    )


def in_any_order(state: dict[str, Any]) -> dict[str, Any]:
    return state | {name: sorted(state[name], key=lambda card: (card["name"], card["host"])) for name in LISTS}


@given(old_files())
def test_import_then_export_gives_the_same_state_back(
    tmp_path_factory: pytest.TempPathFactory, old: tuple[dict[str, Any], frozenset[str]]
) -> None:
    document, up = old
    file = tmp_path_factory.mktemp("imported") / "gpunodes.yaml"
    file.write_text(views.as_yaml(take(document).manifests))
    plan = Plan(manifests.read([str(file)]), Policy(profiles=built_in()))
    plan.take_in(world({normal_host(card["host"]) for name in LISTS for card in document[name]}, up), START)
    assert in_any_order(json.loads(plan.show("snapshot"))) == in_any_order(document)


@given(old_files(), st.randoms(use_true_random=False))
def test_the_order_of_the_lists_changes_nothing(
    old: tuple[dict[str, Any], frozenset[str]], chance: random.Random
) -> None:
    document, _ = old
    shuffled = {name: chance.sample(document[name], len(document[name])) for name in chance.sample(LISTS, len(LISTS))}
    assert take(shuffled).manifests == take(document).manifests
