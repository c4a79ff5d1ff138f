"""C03: the health scripts for Argo CD, run by Lua."""

from pathlib import Path
from typing import Any

import lupa.lua51  # type: ignore[import-untyped]
import pytest
import yaml

SNIPPET = yaml.safe_load(Path("manifests/argocd/argocd-cm.yaml").read_text())["data"]


def health(kind: str, status: dict[str, Any] | None, generation: int = 1) -> str:
    lua = lupa.lua51.LuaRuntime()
    body = {"metadata": {"generation": generation}} | ({} if status is None else {"status": status})
    lua.globals().obj = lua.table_from(body, recursive=True)
    return str(lua.execute(SNIPPET[f"resource.customizations.health.runtime.ialab.dev_{kind}"])["status"])


def condition(kind: str, status: str) -> dict[str, str]:
    return {"type": kind, "status": status, "message": "so"}


JUDGED = {"observedGeneration": 1, "mode": "multi_gpu", "degradation": {"name": "NORMAL"}, "conditions": []}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(None, "Progressing", id="no status"),
        pytest.param({"observedGeneration": 0, "conditions": []}, "Progressing", id="not judged yet"),
        pytest.param({"observedGeneration": 0, "phase": "online"}, "Progressing", id="an older generation"),
        pytest.param({"observedGeneration": 1, "phase": "online"}, "Healthy", id="online"),
        pytest.param({"observedGeneration": 1, "phase": "expected_offline"}, "Healthy", id="off as planned"),
        pytest.param({"observedGeneration": 1, "phase": "unexpected_down"}, "Degraded", id="down"),
        pytest.param({"observedGeneration": 1, "phase": "unknown"}, "Progressing", id="unknown"),
    ],
)
def test_c03_health_of_a_card(status: dict[str, Any] | None, expected: str) -> None:
    assert health("GpuNode", status) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(None, "Progressing", id="no status"),
        pytest.param({"observedGeneration": 0}, "Progressing", id="not judged yet"),
        pytest.param({**JUDGED, "observedGeneration": 0}, "Progressing", id="an older generation"),
        pytest.param({"observedGeneration": 1}, "Progressing", id="no mode yet"),
        pytest.param(JUDGED, "Healthy", id="judged"),
        pytest.param({**JUDGED, "conditions": [condition("Degraded", "True")]}, "Healthy", id="judged as degraded"),
        pytest.param({**JUDGED, "conditions": [condition("Reconciling", "True")]}, "Progressing", id="a change waits"),
        pytest.param({**JUDGED, "conditions": [condition("Stalled", "True")]}, "Degraded", id="stalled"),
    ],
)
def test_c03_health_of_a_topology(status: dict[str, Any] | None, expected: str) -> None:
    assert health("RuntimeTopology", status) == expected
