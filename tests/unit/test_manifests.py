"""Files are read as kubectl reads them, and each fault in them is said with its file and object."""

from pathlib import Path

import pytest

from controller import manifests
from controller.facts import GpuNode, GpuNodeSpec, RuntimeTopology, RuntimeTopologySpec

NODE = """\
apiVersion: runtime.ialab.dev/v1alpha1
kind: GpuNode
metadata: {name: rx9070}
spec: {host: 192.168.1.50, vramGb: 16, model: RX9070}
"""
CARD = GpuNode(
    name="rx9070", uid="rx9070", generation=1, spec=GpuNodeSpec(host="192.168.1.50", vram_gb=16, model="RX9070")
)
TOPOLOGY = """\
apiVersion: runtime.ialab.dev/v1alpha1
kind: RuntimeTopology
metadata: {name: cluster}
spec: {stabilizationSeconds: 5}
"""
FIVE_SECONDS = RuntimeTopology(
    name="cluster", uid="cluster", generation=1, spec=RuntimeTopologySpec(stabilization_seconds=5)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(NODE, manifests.Declared((CARD,), ()), id="one document"),
        pytest.param(f"---\n{NODE}---\n{TOPOLOGY}", manifests.Declared((CARD,), (FIVE_SECONDS,)), id="both kinds"),
        pytest.param(
            f"{NODE}---\nkind: ConfigMap\n---\n", manifests.Declared((CARD,), ()), id="others and nothing are left out"
        ),
        pytest.param(
            "kind: List\nitems:\n- " + NODE.replace("\n", "\n  "), manifests.Declared((CARD,), ()), id="a list"
        ),
        pytest.param(
            f"{NODE}status: {{phase: online}}\n", manifests.Declared((CARD,), ()), id="a status in a file says nothing"
        ),
        pytest.param("", manifests.Declared((), ()), id="an empty file"),
    ],
)
def test_a_file_declares_what_is_in_it(tmp_path: Path, text: str, expected: manifests.Declared) -> None:
    file = tmp_path / "cards.yaml"
    file.write_text(text)
    assert manifests.read([str(file)]) == expected


def test_a_folder_is_all_its_manifests(tmp_path: Path) -> None:
    (tmp_path / "card.yml").write_text(NODE)
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)
    (tmp_path / "README.md").write_text("# not: [a manifest")
    assert manifests.read([str(tmp_path)]) == manifests.Declared((CARD,), (FIVE_SECONDS,))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(
            NODE.replace("16", "16.5"), "GpuNode rx9070: spec.vramGb: Input should be a valid integer", id="fraction"
        ),
        pytest.param(NODE.replace("vramGb", "vram"), "GpuNode rx9070: spec.vramGb: Field required", id="no size"),
        pytest.param(NODE.replace("{name: rx9070}", "{}"), "a GpuNode has no metadata.name", id="no name"),
        pytest.param(f"{NODE}---\n{NODE}", "GpuNode rx9070: it is declared twice", id="twice"),
        pytest.param(
            NODE.replace("v1alpha1", "v2"),
            "GpuNode rx9070: apiVersion must be runtime.ialab.dev/v1alpha1, but it is runtime.ialab.dev/v2",
            id="another version",
        ),
        pytest.param("just words", "this is no Kubernetes object: 'just words'", id="words"),
        pytest.param("a: [1, 2", "this is not YAML: ", id="broken YAML"),
    ],
)
def test_a_fault_is_said_with_its_file_and_object(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "cards.yaml"
    file.write_text(text)
    with pytest.raises(manifests.ManifestError) as caught:
        manifests.read([str(file)])
    assert str(caught.value).startswith(f"{file}: {fault}")


def test_all_faults_are_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NODE.replace("vramGb: 16", "vramGb: zero"))
    (tmp_path / "b.yaml").write_text("- 1\n- 2\n")
    with pytest.raises(manifests.ManifestError) as caught:
        manifests.read([str(tmp_path), "nowhere.yaml"])
    assert str(caught.value).splitlines() == [
        f"{tmp_path}/a.yaml: GpuNode rx9070: spec.vramGb: Input should be a valid integer",
        f"{tmp_path}/b.yaml: this is no Kubernetes object: '[1, 2]'",
        "nowhere.yaml: cannot be read: No such file or directory",
    ]
