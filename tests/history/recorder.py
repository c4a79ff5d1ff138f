"""A recorder: watches both kinds on a real API server, and keeps every revision with the moment it was seen."""

import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from lab.processes import wait_for
from tests.history.history import ADDED, DELETED, GPU_NODES, MODIFIED, RUNTIME_TOPOLOGIES, Json, Revision

_PATH = "/apis/runtime.ialab.dev/v1alpha1"
_PLURALS = (GPU_NODES, RUNTIME_TOPOLOGIES)
_SILENCE_SECONDS = 300
_RETRY_SECONDS = 0.2
_CATCH_UP_SECONDS = 60


class Recorder:
    """Record from the moment it is entered, through restarts of the API server, until it is left.

    A watch goes on where it broke off, so that nothing is missed. Only where the API server has forgotten that moment
    (410), or has lost the kind, the objects are listed anew, and what differs is recorded as a gap.
    """

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._authority, self._token = urlsplit(cluster["server"]).netloc, user["token"]
        self._tls = ssl.create_default_context(cadata=authority)
        self._revisions: list[Revision] = []
        self._ended = threading.Event()
        self._sockets: dict[str, socket.socket] = {}
        self._threads = [threading.Thread(target=self._record, args=(plural,), daemon=True) for plural in _PLURALS]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for stream in list(self._sockets.values()):
            with suppress(OSError):  # it has ended already
                stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(_CATCH_UP_SECONDS)

    def history(self) -> list[Revision]:
        """Return what was recorded, once it has reached what the API server has now."""
        wait_for("the recorder has caught up", self._has_caught_up, _CATCH_UP_SECONDS)
        return list(self._revisions)

    def _has_caught_up(self) -> bool:
        return all(self._listed(plural)[0] == _versions(self._held(plural)) for plural in _PLURALS)

    def _record(self, plural: str) -> None:
        version = ""
        while not self._ended.is_set():
            try:
                version = version or self._take_stock(plural)
                with self._open(plural, f"?watch=true&allowWatchBookmarks=true&resourceVersion={version}") as stream:
                    for line in stream:
                        version = self._note(plural, json.loads(line))
                        if not version:
                            break
            except _ForgottenError:
                version = ""
            except (OSError, HTTPException, ValueError):
                pass  # the server is away, or this recorder has hung up
            self._ended.wait(_RETRY_SECONDS)

    def _take_stock(self, plural: str) -> str:
        _, listed = self._listed(plural)
        held = self._held(plural)
        seen, first = time.monotonic(), not any(one.plural == plural for one in self._revisions)
        for uid in held.keys() - listed["items"].keys():
            gone = {**held[uid], "metadata": {**held[uid]["metadata"], "resourceVersion": listed["version"]}}
            self._revisions.append(Revision(plural, DELETED, gone, seen, gap=True))
        for uid, resource in listed["items"].items():
            if uid not in held or _version(held[uid]) != _version(resource):
                event = MODIFIED if uid in held else ADDED
                self._revisions.append(Revision(plural, event, resource, seen, gap=not first))
        version: str = listed["version"]
        return version

    def _note(self, plural: str, event: Json) -> str:
        """Keep an event; return where the watch has got to, or nothing where it must begin anew."""
        if event["type"] == "ERROR":
            return ""
        if event["type"] in {ADDED, MODIFIED, DELETED}:
            self._revisions.append(Revision(plural, event["type"], event["object"], time.monotonic()))
        return _version(event["object"])

    def _held(self, plural: str) -> dict[str, Json]:
        held: dict[str, Json] = {}
        for revision in [one for one in list(self._revisions) if one.plural == plural]:
            held[revision.uid] = revision.resource
            if revision.event == DELETED:
                del held[revision.uid]
        return held

    def _listed(self, plural: str) -> tuple[dict[str, str], dict[str, Any]]:
        with self._open(plural, "") as answer:
            listed = json.load(answer)
        items = {
            item["metadata"]["uid"]: {"apiVersion": item["apiVersion"], "kind": item["kind"], **item}
            for item in listed["items"]
        }
        return _versions(items), {"items": items, "version": _version(listed)}

    @contextmanager
    def _open(self, plural: str, query: str) -> Iterator[HTTPResponse]:
        connection = HTTPSConnection(self._authority, timeout=_SILENCE_SECONDS, context=self._tls)
        try:
            connection.request("GET", f"{_PATH}/{plural}{query}", headers={"Authorization": f"Bearer {self._token}"})
            if query:
                self._sockets[plural] = connection.sock
            answer = connection.getresponse()
            if answer.status in {HTTPStatus.GONE, HTTPStatus.NOT_FOUND}:
                raise _ForgottenError
            if answer.status != HTTPStatus.OK:
                raise OSError(answer.status)
            yield answer
        finally:
            connection.close()


class _ForgottenError(Exception):
    pass


def _version(resource: Json) -> str:
    version: str = resource["metadata"]["resourceVersion"]
    return version


def _versions(resources: Json) -> dict[str, str]:
    return {uid: _version(resource) for uid, resource in resources.items()}
