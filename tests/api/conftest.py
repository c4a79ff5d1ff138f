"""The API server with both CRDs."""

from pathlib import Path

import pytest

from tests.api.kubectl import Api, Cluster

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Api:
    cluster.kubectl("apply", "--server-side", f"--kustomize={CRDS}")
    cluster.kubectl(
        "wait",
        "--for=condition=Established",
        "--timeout=30s",
        "crd/gpunodes.runtime.ialab.dev",
        "crd/runtimetopologies.runtime.ialab.dev",
    )
    return Api(cluster)
