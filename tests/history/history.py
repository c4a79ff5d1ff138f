"""What became of the objects of both kinds, revision by revision."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

GPU_NODES, RUNTIME_TOPOLOGIES = "gpunodes", "runtimetopologies"
ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


@dataclass(frozen=True, slots=True)
class Revision:
    """One object as it was from some moment on; for a deletion, as it was last."""

    plural: str
    event: str
    resource: Json
    seen: float
    """When it was seen, on the recorder's monotonic clock."""
    gap: bool = False
    """Found by listing anew: it may be older than it was seen, and others may have come and gone before it."""

    @property
    def name(self) -> str:
        name: str = self.resource["metadata"]["name"]
        return name

    @property
    def uid(self) -> str:
        uid: str = self.resource["metadata"]["uid"]
        return uid

    @property
    def version(self) -> int:
        return int(self.resource["metadata"]["resourceVersion"])

    @property
    def status(self) -> Json:
        status: Json = self.resource.get("status") or {}
        return status


def trails(revisions: Iterable[Revision]) -> list[list[Revision]]:
    """Return the revisions of each object in their order; one that is created anew is another object."""
    sorted_out: dict[tuple[str, str], list[Revision]] = {}
    for revision in sorted(revisions, key=lambda revision: revision.version):
        sorted_out.setdefault((revision.plural, revision.uid), []).append(revision)
    return list(sorted_out.values())
