"""A live state's exit code says how bad it is, and a watch outlives the API server."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any, Self

import pytest

from controller import kube, live, resources
from controller.facts import Counts, Mode, RuntimeTopologyStatus
from controller.kube import ApiError
from controller.modes import DEGRADATIONS
from tests.unit.virtual_time import run


def topology(mode: Mode | None, **metadata: object) -> dict[str, Any]:
    status = RuntimeTopologyStatus(
        observed_generation=1, mode=mode, degradation=DEGRADATIONS[mode] if mode else None, counts=Counts()
    )
    return {"metadata": {"name": "cluster", **metadata}, "spec": {}, "status": resources.dump_status(status)}


GOOD, LIGHT, HEAVY = topology(Mode.MULTI_GPU), topology(Mode.DEGRADED_SINGLE_GPU), topology(Mode.INVENTORY_ONLY)


class ScriptedCluster:
    """Each read shows the next of what it is given, or raises it."""

    def __init__(self, *shown: dict[str, Any] | ApiError | None) -> None:
        self._shown = iter(shown)
        self.read_at: list[float] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def read(self, _plural: str, _name: str = "") -> tuple[list[dict[str, Any]], str]:
        self.read_at.append(asyncio.get_running_loop().time())
        match next(self._shown):
            case ApiError() as error:
                raise error
            case None:
                return [], "1"
            case resource:
                return [resource], "1"

    async def changed(self, _versions: Mapping[tuple[str, str], str]) -> None:
        """Say at once that something may have changed."""


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect() -> None: ...

    monkeypatch.setattr(kube, "connect", connect)


def use(monkeypatch: pytest.MonkeyPatch, *shown: dict[str, Any] | ApiError | None) -> ScriptedCluster:
    cluster = ScriptedCluster(*shown)
    monkeypatch.setattr(live, "Cluster", lambda _: cluster)
    return cluster


@pytest.mark.parametrize(
    ("shown", "fail_on", "code"),
    [
        pytest.param(HEAVY, None, 0, id="nothing fails where nobody asked for it"),
        pytest.param(GOOD, "LIGHT", 0, id="NORMAL is below LIGHT"),
        pytest.param(LIGHT, "LIGHT", 3, id="LIGHT is at LIGHT"),
        pytest.param(HEAVY, "LIGHT", 3, id="HEAVY is above LIGHT"),
        pytest.param(LIGHT, "HEAVY", 0, id="LIGHT is below HEAVY"),
        pytest.param(HEAVY, "HEAVY", 3, id="HEAVY is at HEAVY"),
        pytest.param(None, "LIGHT", 4, id="no topology is no state"),
        pytest.param(topology(None), "LIGHT", 4, id="no mode is no state"),
        pytest.param({"metadata": {"name": "cluster"}}, None, 4, id="no status is no state"),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, shown: dict[str, Any] | None, fail_on: str | None, code: int
) -> None:
    async def main() -> None:
        assert await live.get("cluster", "snapshot", fail_on) == code

    use(monkeypatch, shown)
    run(main())


def test_the_resource_is_shown_without_the_fields_that_managers_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        await live.get("cluster", "json", None)

    use(monkeypatch, topology(Mode.MULTI_GPU, managedFields=[{}], uid="1"))
    run(main())
    assert json.loads(capsys.readouterr().out) == topology(Mode.MULTI_GPU, uid="1")


def modes(printed: str) -> Iterable[str]:
    return [line.split('"')[3] for line in printed.splitlines() if '"mode"' in line]


def test_a_watch_prints_changes_alone_and_says_trouble_once_until_it_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        assert await live.watch("cluster", "snapshot", "HEAVY") == 3

    away = [ApiError("Cannot list runtimetopologies: refused")] * 6
    asked = [ApiError("Cannot list runtimetopologies: 429", retry_after_seconds=20)]
    cluster = use(monkeypatch, GOOD, GOOD, *away, None, GOOD, LIGHT, *asked, HEAVY)
    run(main())
    printed, complaints = capsys.readouterr()
    assert modes(printed) == ["multi_gpu", "degraded_single_gpu", "inventory_only"]
    assert complaints.splitlines() == [
        "gpu-topology: Cannot list runtimetopologies: refused",
        "gpu-topology: there is no RuntimeTopology 'cluster'",
        "gpu-topology: Cannot list runtimetopologies: 429",
    ]
    pauses = [after - before for before, after in zip(cluster.read_at, cluster.read_at[1:], strict=False)]
    assert pauses == [0.5, 0.5, 1, 2, 4, 8, 10, 10, 0.5, 0.5, 0.5, 20]


def test_a_watch_ends_where_even_the_first_request_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        with pytest.raises(ApiError, match=r"^refused$"):
            await live.watch("cluster", "snapshot", None)

    use(monkeypatch, ApiError("refused"))
    run(main())
