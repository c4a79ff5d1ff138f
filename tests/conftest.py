"""What the tests share: a real API server."""

from collections.abc import Iterator
from dataclasses import dataclass

import hypothesis
import pytest

from lab.controlplane import ControlPlane
from lab.kubectl import Kubectl

# A property is about results; how long an example takes on a busy machine says nothing.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@dataclass(frozen=True)
class Cluster:
    """A real API server, and kubectl bound to it as its administrator."""

    plane: ControlPlane

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return Kubectl(self.plane.kubeconfig)(*arguments, stdin=stdin)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ControlPlane.start(tmp_path_factory.mktemp("control-plane")) as plane:
        yield Cluster(plane)
