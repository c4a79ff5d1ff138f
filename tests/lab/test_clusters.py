"""Which API server the lab takes: the named context, else kind where docker answers, else its own."""

import os
from pathlib import Path

import pytest

from lab import tools
from lab.clusters import KindCluster, open_cluster
from lab.controlplane import ControlPlane
from lab.kubectl import Kubectl
from lab.processes import LabError

NOBODY = "http://127.0.0.1:1"
"""Where a person's kubeconfig points in these tests; nothing listens there."""

MINE = f"""
apiVersion: v1
kind: Config
current-context: mine
contexts: [{{name: mine, context: {{cluster: mine}}}}]
clusters: [{{name: mine, cluster: {{server: "{NOBODY}"}}}}]
"""


@pytest.fixture(autouse=True)
def _current_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(MINE)
    monkeypatch.setenv("KUBECONFIG", str(config))


def put_kind_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch, *, docker_status: int, clusters: str = "") -> Path:
    """Put a docker and a kind on PATH that do nothing; return the file with what kind was told."""
    told = folder / "told"
    told.touch()
    kind = f'echo "$1 $2" >> {told}\n[ "$1" = get ] && echo {clusters}\nexit 0'
    for name, lines in {"docker": f"exit {docker_status}", "kind": kind}.items():
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
        (folder / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return told


def test_a_named_context_goes_before_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = put_kind_on_path(tmp_path, monkeypatch, docker_status=0)
    with pytest.raises(LabError, match=NOBODY.removeprefix("http://")):
        open_cluster(tmp_path / "cluster", context="mine")
    assert told.read_text() == ""


def test_a_context_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"^CONTEXT=yours cannot be used: .*yours"):
        open_cluster(tmp_path / "cluster", context="yours")


def test_kind_is_used_and_its_cluster_deleted_where_docker_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = put_kind_on_path(tmp_path, monkeypatch, docker_status=0)
    cluster = open_cluster(tmp_path / "cluster")
    assert isinstance(cluster, KindCluster)
    cluster.stop()
    assert told.read_text().splitlines() == ["get clusters", "create cluster", "delete cluster"]


def test_a_kind_cluster_of_another_lab_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = put_kind_on_path(tmp_path, monkeypatch, docker_status=0, clusters="gpu-topology-lab")
    with pytest.raises(LabError, match="`kind delete cluster --name gpu-topology-lab` deletes what was left"):
        open_cluster(tmp_path / "cluster")
    assert told.read_text().splitlines() == ["get clusters"]


def test_without_docker_the_lab_has_its_own_and_never_the_current_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = put_kind_on_path(tmp_path, monkeypatch, docker_status=1)
    cluster = open_cluster(tmp_path / "cluster")
    try:
        assert isinstance(cluster, ControlPlane)
        assert NOBODY not in Kubectl(cluster.kubeconfig)("config", "view")
    finally:
        cluster.stop()
    assert told.read_text() == ""


def test_kubebuilder_assets_go_before_what_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).touch(mode=0o700)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert (tools.etcd(), tools.kube_apiserver()) == (tmp_path / "etcd", tmp_path / "kube-apiserver")


def test_kubebuilder_assets_without_the_programs_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(LabError, match=f"^KUBEBUILDER_ASSETS is set, but there is no program {tmp_path}/etcd; unset"):
        tools.etcd()
