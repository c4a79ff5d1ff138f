"""kubectl as a person uses it, bound to one kubeconfig."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import tools
from lab.processes import LabError

_PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Kubectl:
    """Run kubectl against one cluster, and never against the one that a person's own kubeconfig names."""

    kubeconfig: Path

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Return what kubectl prints; fail with what it complains about."""
        done = self._run(*arguments, stdin=stdin)
        if done.returncode:
            raise LabError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def succeeds(self, *arguments: str) -> bool:
        """Tell whether a command works, for probes that may fail for a while."""
        return self._run(*arguments).returncode == 0

    def json(self, *arguments: str) -> Any:  # noqa: ANN401 - any JSON
        """Return what kubectl prints as JSON."""
        return json.loads(self(*arguments, "--output=json"))

    def apply(self, manifests: str) -> None:
        """Apply manifests given as text."""
        self("apply", "--filename=-", stdin=manifests)

    def as_account(self, account: str, *, namespace: str, kubeconfig: Path) -> "Kubectl":
        """Write a kubeconfig for a service account, with a token that the API server hands out for it."""
        config = self.json("config", "view", "--raw", "--minify", "--flatten")
        token = self("create", "token", account, f"--namespace={namespace}", "--duration=24h").strip()
        config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": token}}]
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(json.dumps(config, indent=2))
        return Kubectl(kubeconfig)

    def _run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        # What kubectl remembers of an API server would mislead it about the next one on the same port.
        flags = [f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.kubeconfig.parent / 'kubectl-cache'}"]
        command: list[str | Path] = [tools.kubectl(), *flags, *arguments]
        try:
            return subprocess.run(
                command, input=stdin, capture_output=True, text=True, check=False, timeout=_PATIENCE_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"kubectl {' '.join(arguments)} gave no answer in {_PATIENCE_SECONDS} s") from error
