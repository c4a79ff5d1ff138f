"""The lab in the background, for trying things by hand: up, down, and the switches of its hosts."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from lab import tools
from lab.clusters import open_cluster
from lab.exporters import State
from lab.ports import ensure_free
from lab.processes import LabError, wait_for
from lab.scene import Scene, addresses, prometheus_address

_HOME = Path(__file__).parent.parent / ".lab"
_LOG = _HOME / "lab.log"
_PID = _HOME / "pid"
_READY = _HOME / "ready"
_KUBECONFIG = _HOME / "kubeconfig"
_API_SERVER_PORT = 6443
_UP_SECONDS = 600
"""Kind may have an image to fetch."""
_JUDGED_SECONDS = 30
_DOWN_SECONDS = 60
_LOOK_SECONDS = 0.2

NODES = {"node-1": State.UP, "node-2": State.DOWN}
"""The switches, and how they stand at first: node 2 is off on purpose."""


def up(context: str | None) -> None:
    """Start the lab in the background, and say what to do with it."""
    _HOME.mkdir(mode=0o700, exist_ok=True)
    with _PID.open("a+") as lock:
        if _is_locked(lock, fcntl.LOCK_EX):
            raise LabError(f"The lab is up already, or on its way{_by(lock)}; `make down` ends it")
        ensure_free(addresses())
        _clear(lock)
        print("Starting the lab in the background")
        command = [sys.executable, "-m", "lab", "serve", *([f"--context={context}"] if context else [])]
        with _LOG.open("w") as log:
            supervisor = subprocess.Popen(
                command,
                cwd=_HOME.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[lock.fileno()],  # so the lock lasts as long as the lab
            )
        try:
            print(supervisor.pid, file=lock, flush=True)
            wait_for("the lab is up", lambda: _READY.exists() or supervisor.poll() is not None, _UP_SECONDS)
        except BaseException:
            supervisor.terminate()
            supervisor.wait(_DOWN_SECONDS)
            raise
        if supervisor.poll() is not None:
            raise LabError(f"The lab did not come up:\n{_LOG.read_text().strip()}")
    print(_guide())


def serve(context: str | None) -> None:
    """Be the lab until told to end."""
    with ExitStack() as last_first:
        cluster = open_cluster(_HOME / "cluster", context=context, port=_API_SERVER_PORT)
        last_first.callback(cluster.stop)
        scene = Scene(_HOME, cluster.kubeconfig)
        for node, state in NODES.items():
            _switch(node).write_text(state)
            scene.hosts[node].switch(state)
        last_first.enter_context(scene)
        scene.kubectl.apply(scene.samples)
        operator = scene.operator().start()
        wait_for("the operator has judged the lab", lambda: _mode(scene), _JUDGED_SECONDS, operator)
        _KUBECONFIG.symlink_to(cluster.kubeconfig)
        _READY.touch()
        while operator.running:
            for node in NODES:
                if (state := State(_switch(node).read_text())) is not scene.hosts[node].state:
                    scene.hosts[node].switch(state)
            time.sleep(_LOOK_SECONDS)
        raise LabError(f"The operator ended, and the lab with it:\n{operator.tail()}")


def down() -> None:
    """Stop the lab that runs in the background, if there is one."""
    if not (pid := _running()):
        print("The lab is not up.")
        return
    os.kill(pid, signal.SIGTERM)
    wait_for("the lab is down", lambda: _running() != pid, _DOWN_SECONDS)
    with _PID.open("a+") as lock:
        if not _is_locked(lock, fcntl.LOCK_EX):  # else the next one is on its way
            _clear(lock)
    print(f"The lab (pid {pid}) is down.")


def switch(node: str, state: State) -> None:
    """Tell a host of the lab to be up, down, or silent."""
    if not _running():
        raise LabError("The lab is not up; `make up` starts it")
    unfinished = _switch(node).with_suffix(".unfinished")
    unfinished.write_text(state)
    unfinished.rename(_switch(node))
    print(f"{node} is told to be {state}")


def _running() -> int | None:
    """Return the lab's pid while it holds the lock on the file with it; a pid alone may be someone else's by now."""
    if not _PID.exists():
        return None
    with _PID.open() as lock:
        return _pid(lock) if _is_locked(lock, fcntl.LOCK_SH) else None


def _is_locked(file: IO[str], kind: int) -> bool:
    """Tell whether a lab has the file locked; otherwise it is locked now, until it is closed."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _pid(lock: IO[str]) -> int | None:
    lock.seek(0)
    return int(lock.read() or 0) or None


def _by(lock: IO[str]) -> str:
    pid = _pid(lock)
    return f" (pid {pid})" if pid else ""


def _clear(lock: IO[str]) -> None:
    """Delete what a lab before left; the file with the lock stays, because a deleted one would lock nobody out."""
    lock.truncate(0)
    for left in _HOME.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        elif left != _PID:
            left.unlink()


def _mode(scene: Scene) -> str:
    return scene.kubectl("get", "runtimetopology", "cluster", "--output=jsonpath={.status.mode}")


def _switch(node: str) -> Path:
    return _HOME / node


def _guide() -> str:
    kubectl = "kubectl" if shutil.which("kubectl") else tools.kubectl()
    host, port = prometheus_address("127.0.0.")
    return f"""\
The lab is up: an API server, Prometheus, two GPU hosts (node 2 is off on purpose), and the operator.

  export KUBECONFIG={_KUBECONFIG}
  {kubectl} get gpunodes,runtimetopology
  {kubectl} describe runtimetopology cluster

Switch a host and see what happens (node-1 or node-2; up, down, or silent: up, but without a word of its card):

  {sys.executable} -m lab node-2 up

Prometheus: http://{host}:{port}   Operator's log: {_HOME / "operator.log"}
`make down` ends it."""
