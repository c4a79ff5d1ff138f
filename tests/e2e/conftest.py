"""A scene that the tests share: one Prometheus for all, and for each test an API server without objects."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.exporters import State
from lab.scene import Scene
from tests.conftest import Cluster


@contextmanager
def borrowed(lab: Scene) -> Iterator[Scene]:
    """Leave nothing behind: no operator, no object, no host that is up."""
    try:
        yield lab
    finally:
        while lab.operators:
            lab.operators.pop().stop()
        for host in lab.hosts.values():
            host.switch(State.DOWN)
        lab.kubectl("delete", "gpunodes,runtimetopologies", "--all", "--wait=false")


@pytest.fixture(scope="session")
def lab(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    network = f"127.{1 + int(worker)}.9."
    with Scene(tmp_path_factory.mktemp("lab"), cluster.plane.kubeconfig, network=network) as lab:
        # Just after its CRD has come, a kind cannot be listed for a while; kubectl tries again until it can.
        lab.kubectl("get", "gpunodes,runtimetopologies")
        yield lab


@pytest.fixture
def scene(lab: Scene) -> Iterator[Scene]:
    with borrowed(lab) as scene:
        yield scene
