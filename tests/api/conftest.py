"""The API server with both CRDs."""

from pathlib import Path

import pytest

from lab.processes import wait_for
from tests.api.kubectl import Api
from tests.conftest import Cluster

CRDS = Path(__file__).parents[2] / "crds"
OPENAPI = "/openapi/v3"
GROUP_VERSION = "apis/runtime.ialab.dev/v1alpha1"


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Api:
    def is_explained() -> bool:
        """Tell whether the schemas, which follow the CRDs by a second, are where `kubectl explain` looks for them."""
        if f'"{GROUP_VERSION}"' not in cluster.kubectl("get", f"--raw={OPENAPI}"):
            return False
        schemas = cluster.kubectl("get", f"--raw={OPENAPI}/{GROUP_VERSION}")
        return all(f"/{GROUP_VERSION}/{plural}/{{name}}" in schemas for plural in ("gpunodes", "runtimetopologies"))

    cluster.kubectl("apply", "--server-side", f"--kustomize={CRDS}")
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"--filename={CRDS / 'gpunodes.yaml'}")
    cluster.kubectl(
        "wait", "--for=condition=Established", "--timeout=30s", f"--filename={CRDS / 'runtimetopologies.yaml'}"
    )
    wait_for("kubectl explains both kinds", is_explained, 30)
    return Api(cluster)
