"""A Kubernetes control plane without nodes: etcd and kube-apiserver, which is all that an operator talks to."""

import base64
import json
import secrets
from pathlib import Path
from typing import Self

from lab import tools
from lab.kubectl import Kubectl
from lab.ports import ensure_free, free_port
from lab.processes import Process, wait_for

_HOST = "127.0.0.1"
_READY_SECONDS = 60
# Sockets in a private folder, because this etcd asks nobody for a password. Its flags insist on a port.
_STORE, _PEER = "unix://etcd.sock:1", "unix://peer.sock:1"


class ControlPlane:
    """Own an etcd and a kube-apiserver with RBAC, certificates and tokens, all in one private folder."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        self.kubeconfig = folder / "kubeconfig"
        self._folder = folder.absolute()
        self._address = (_HOST, port or free_port(_HOST))
        self._token = secrets.token_urlsafe(32)
        (folder / "tokens.csv").write_text(f"{self._token},lab,lab,system:masters\n")
        self._etcd = Process(self._etcd_command(), folder / "etcd.log", cwd=folder)
        self._api_server = Process(self._api_server_command(), folder / "kube-apiserver.log", cwd=folder)

    @classmethod
    def start(cls, folder: Path, port: int | None = None) -> Self:
        """Start both with the data that the folder has, and return when the API server is ready."""
        plane = cls(folder, port)
        try:
            plane.resume()
        except BaseException:
            plane.stop()
            raise
        return plane

    def resume(self) -> None:
        """Start both, with the data, certificates and tokens from before."""
        self._etcd.start()
        self.start_api_server()

    def stop(self) -> None:
        """Stop both; the data stays."""
        self.stop_api_server()
        self._etcd.stop()

    def start_api_server(self) -> None:
        """Start the API server alone, with the data from before."""
        ensure_free([self._address])
        self._api_server.start()
        processes = (self._etcd, self._api_server)
        wait_for("kube-apiserver has its key", self._key.exists, _READY_SECONDS, *processes)
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(self._admin())
        wait_for("kube-apiserver is ready", self._is_ready, _READY_SECONDS, *processes)

    def stop_api_server(self) -> None:
        """Stop the API server alone."""
        self._api_server.stop()

    def crash_api_server(self) -> None:
        """End the API server at once; it would wait for whoever watches something."""
        self._api_server.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _key(self) -> Path:
        return self._folder / "certificates" / "apiserver.key"

    def _is_ready(self) -> bool:
        kubectl = Kubectl(self.kubeconfig)
        # The namespace comes a moment later, and events need it.
        return kubectl.succeeds("get", "--raw=/readyz") and kubectl.succeeds("get", "namespace", "default")

    def _etcd_command(self) -> list[str | Path]:
        return [
            tools.etcd(),
            "--name=lab",
            "--data-dir=etcd",
            f"--listen-client-urls={_STORE}",
            f"--advertise-client-urls={_STORE}",
            f"--listen-peer-urls={_PEER}",
            f"--initial-advertise-peer-urls={_PEER}",
            f"--initial-cluster=lab={_PEER}",
            "--unsafe-no-fsync",  # a power cut may take the lab with it
        ]

    def _api_server_command(self) -> list[str | Path]:
        host, port = self._address
        return [
            tools.kube_apiserver(),
            f"--etcd-servers={_STORE}",
            f"--bind-address={host}",
            f"--advertise-address={host}",
            f"--secure-port={port}",
            f"--cert-dir={self._key.parent}",  # where it makes itself a certificate for this address
            "--token-auth-file=tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://lab",
            # Any RSA key will do, and this one is there already.
            f"--service-account-key-file={self._key}",
            f"--service-account-signing-key-file={self._key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Nobody fills in what these two wait for: there is no controller manager, and an address of this machine
            # is no endpoint.
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
        ]

    def _admin(self) -> str:
        authority = self._key.with_suffix(".crt").read_bytes()
        cluster = {
            "server": f"https://{self._address[0]}:{self._address[1]}",
            "certificate-authority-data": base64.b64encode(authority).decode(),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": "lab", "user": {"token": self._token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
            "current-context": "lab",
        }
        return json.dumps(config, indent=2)
