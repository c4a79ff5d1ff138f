"""Each recorded shape of an answer, served with its status by a real server, leads to the verdict written down here."""

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml

from controller.access import SourceConfig
from controller.facts import Survey
from controller.prometheus import Prometheus
from tests.fake_server import Answer, Asked, FakeServer

SAMPLES = Path(__file__).parents[1] / "samples" / "api"

TARGETS = json.dumps(
    {
        "status": "success",
        "data": {
            "activeTargets": [
                {
                    "scrapeUrl": "http://h:9182/metrics",
                    "labels": {"job": "j", "instance": "h:9182"},
                    "health": "up",
                    "scrapeInterval": "15s",
                }
            ]
        },
    }
).encode()
SERIES = b'{"status": "success", "data": {"resultType": "vector", "result": []}}'


STATUS = {"targets_thanos_error_unknown_health.json": 500}
"""Where the name does not say it."""

ASKED_FOR = {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "gpu_fan_rpm"}
"""What is asked for."""


def told(name: str, role: str) -> str:
    """Serve a sample as the answer to one kind of request, beside a good answer to the other one."""
    body = (SAMPLES / name).read_bytes()
    found = re.search(r"\.http(\d+)\.", name)
    status = int(found[1]) if found else STATUS.get(name, 200)

    def answering(asked: Asked) -> Answer:
        what = asked.path.rpartition("/")[2]
        return Answer(status, body) if what == role else Answer(200, TARGETS if what == "targets" else SERIES)

    async def ask() -> str:
        with FakeServer(answering) as server:
            async with Prometheus(SourceConfig(targets=(server.url,), query=(server.url,)), 30, ASKED_FOR) as source:
                observation = await source.survey()
        if not isinstance(observation, Survey):
            text = observation.message.removeprefix(f"Prometheus at {server.url} ")
            return f"{observation.reason}: {text.partition('; it begins with')[0]}"
        targets = [
            f"{one.host}:{one.port} {one.health} each {one.scrape_seconds:g} s {one.last_error}".strip()
            for one in observation.targets
        ]
        samples = [f"{one.name} {one.value:g}" for one in observation.samples]
        notes = [f"partial: {observation.partial}"] if observation.partial else []
        notes += [] if observation.queryable else ["no readings"]
        return "; ".join([*targets, *samples, *notes])

    return asyncio.run(ask())


VERDICTS = {
    (name, role): verdict
    for name, verdicts in yaml.safe_load((SAMPLES.parent / "verdicts.yaml").read_text()).items()
    for role, verdict in verdicts.items()
}


@pytest.mark.parametrize(("name", "role"), VERDICTS)
def test_a_sample(name: str, role: str) -> None:
    assert told(name, role) == VERDICTS[name, role]


def test_every_sample_has_a_verdict_in_each_place_where_it_could_come() -> None:
    kinds = {file.name: file.name.partition("_")[0] for file in SAMPLES.iterdir()}
    both = ("targets", "query")
    assert set(VERDICTS) == {
        (name, role) for name, kind in kinds.items() for role in ((kind,) if kind in both else both)
    }
