"""Which API server the lab uses: the one that the user names, else kind, else a control plane of its own."""

import shutil
import subprocess
from pathlib import Path
from typing import Protocol

from lab import tools
from lab.controlplane import ControlPlane
from lab.kubectl import Kubectl
from lab.processes import LabError

_KIND_CLUSTER = "gpu-topology-lab"
_KIND_CONFIG = Path(__file__).parent.parent / "kind-config.yaml"


class Cluster(Protocol):
    """An API server to work with, until it is no longer needed."""

    kubeconfig: Path

    def stop(self) -> None:
        """Give back what the lab took."""


def open_cluster(folder: Path, *, context: str | None = None, port: int | None = None) -> Cluster:
    """Return an API server; the port is for a control plane of the lab's own.

    The current context of a person's kubeconfig is never used by itself: nobody's cluster is touched by accident.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if context:
        return NamedContext(folder, context)
    if kind_is_here():
        return KindCluster(folder)
    return ControlPlane.start(folder, port)


def kind_is_here() -> bool:
    """Tell whether kind can make a cluster: it is on PATH, and docker answers."""
    docker = shutil.which("docker")
    return bool(shutil.which("kind") and docker) and _succeeds(str(docker), "info")


class NamedContext:
    """A cluster that belongs to someone, where the lab deletes its objects after use.

    The CRDs and the operator's account stay: the lab cannot know who else relies on them by then.
    """

    def __init__(self, folder: Path, context: str) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.touch(mode=0o600)
        view: list[str | Path] = [
            tools.kubectl(),
            "config",
            "view",
            "--raw",
            "--minify",
            "--flatten",
            f"--context={context}",
        ]
        found = subprocess.run(view, capture_output=True, text=True, check=False)
        if found.returncode:
            raise LabError(f"CONTEXT={context} cannot be used: {found.stderr.strip()}")
        self.kubeconfig.write_text(found.stdout)
        self._kubectl = Kubectl(self.kubeconfig)
        if strangers := self._lab_objects():
            raise LabError(
                f"CONTEXT={context} is in use, so the lab keeps away from it. It has: {', '.join(strangers)}"
            )

    def stop(self) -> None:
        """Delete the objects that the lab and its operator made."""
        if objects := self._lab_objects():
            self._kubectl("delete", *objects, "--ignore-not-found")

    def _lab_objects(self) -> list[str]:
        if not self._kubectl("api-resources", "--api-group=runtime.ialab.dev", "--no-headers"):
            return []
        return self._kubectl("get", "gpunodes,runtimetopologies", "--output=name").split()


class KindCluster:
    """A kind cluster that is made for the lab and deleted after it."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._kind = str(shutil.which("kind"))
        names = subprocess.run([self._kind, "get", "clusters"], capture_output=True, text=True, check=False)
        if _KIND_CLUSTER in names.stdout.split():
            raise LabError(
                f"There is a kind cluster {_KIND_CLUSTER} already, of another lab or left by one: "
                f"`make down` ends a lab, and `kind delete cluster --name {_KIND_CLUSTER}` deletes what was left"
            )
        try:
            self._run("create", f"--config={_KIND_CONFIG}", "--wait=120s")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Delete the cluster."""
        self._run("delete")

    def _run(self, verb: str, *arguments: str) -> None:
        where = [f"--name={_KIND_CLUSTER}", f"--kubeconfig={self.kubeconfig}"]
        if subprocess.run([self._kind, verb, "cluster", *where, *arguments], check=False).returncode:
            raise LabError(f"kind could not {verb} the cluster {_KIND_CLUSTER}")


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
