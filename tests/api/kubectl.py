"""Short ways to offer objects to an API server."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.conftest import Cluster

API_VERSION = "runtime.ialab.dev/v1alpha1"


@dataclass(frozen=True, slots=True)
class Api:
    """What a person does with kubectl."""

    cluster: Cluster

    def kubectl(self, *args: str, stdin: str = "") -> str:
        return self.cluster.kubectl(*args, stdin=stdin)

    def offer(self, kind: str, spec: Mapping[str, object] | None, *options: str) -> Any:  # noqa: ANN401 - JSON
        """Return the object as the server would store it, without storing it."""
        body = manifest(kind, "offered", spec)
        return json.loads(
            self.kubectl("apply", "--dry-run=server", "--output=json", "--filename=-", *options, stdin=body)
        )

    @contextmanager
    def stored(self, kind: str, name: str, spec: Mapping[str, object] | None) -> Iterator[str]:
        """Keep an object for a while; gives the way kubectl names it."""
        self.kubectl("apply", "--filename=-", stdin=manifest(kind, name, spec))
        try:
            yield f"{kind.lower()}/{name}"
        finally:
            self.kubectl("delete", kind, name)

    def report(self, target: str, status: Mapping[str, object], *options: str) -> Any:  # noqa: ANN401 - JSON
        """Write status as the operator does, and return the object."""
        patch = json.dumps({"status": status})
        return json.loads(
            self.kubectl(
                "patch", target, "--subresource=status", "--type=merge", f"--patch={patch}", "--output=json", *options
            )
        )


def manifest(kind: str, name: str, spec: Mapping[str, object] | None) -> str:
    body: dict[str, object] = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}}
    return json.dumps(body if spec is None else {**body, "spec": spec})
