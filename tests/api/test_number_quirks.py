"""C08: how YAML's ways to write a number fare at the API server."""

import json
import re
from collections.abc import Iterable

import pytest

from tests.api.kubectl import Api

NOT_A_WHOLE_NUMBER = "spec.vramGb in body must be of type integer"
NOT_TEXT = "spec.host in body must be of type string"

STORED = {"16": 16, "16.0": 16, "1e3": 1000, "0x10": 16, "010": 8, "1_6": 16}

REFUSED_MEMORY = {
    "16.5": NOT_A_WHOLE_NUMBER,
    '"16"': NOT_A_WHOLE_NUMBER,
    "16GB": NOT_A_WHOLE_NUMBER,
    "16Gi": NOT_A_WHOLE_NUMBER,
    "true": NOT_A_WHOLE_NUMBER,
    "0": "spec.vramGb in body should be greater than or equal to 1",
    "-1": "spec.vramGb in body should be greater than or equal to 1",
    "99999999999": "spec.vramGb in body should be less than or equal to 16384",
    "null": "spec.vramGb: Required value",
    ".inf": "json: unsupported value: +Inf",
    ".nan": "json: unsupported value: NaN",
}

REFUSED_HOST = {
    "12345": NOT_TEXT,
    "10.5": NOT_TEXT,
    "1e3": NOT_TEXT,
    "true": NOT_TEXT,
    "null": "spec.host: Required value",
}


def sentences(written: Iterable[str], verdict: str) -> list[str]:
    return [f"{text} {verdict}" for text in written]


def offer(api: Api, *, host: str = "192.168.1.50", memory: str = "16") -> dict[str, object]:
    text = f"""
        apiVersion: runtime.ialab.dev/v1alpha1
        kind: GpuNode
        metadata: {{name: offered}}
        spec:
          host: {host}
          vramGb: {memory}
    """
    spec = api.kubectl("apply", "--dry-run=server", "--filename=-", "--output=jsonpath={.spec}", stdin=text)
    return dict(json.loads(spec))


@pytest.mark.parametrize(("written", "stored"), STORED.items(), ids=sentences(STORED, "is stored"))
def test_c08_memory_as(api: Api, written: str, stored: int) -> None:
    memory = offer(api, memory=written)["vramGb"]

    assert (memory, type(memory)) == (stored, int)


@pytest.mark.parametrize(("written", "message"), REFUSED_MEMORY.items(), ids=sentences(REFUSED_MEMORY, "is refused"))
def test_c08_memory_of(api: Api, written: str, message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        offer(api, memory=written)


def test_c08_an_unquoted_address_is_text(api: Api) -> None:
    assert offer(api, host="10.0.0.5")["host"] == "10.0.0.5"


@pytest.mark.parametrize(("written", "message"), REFUSED_HOST.items(), ids=sentences(REFUSED_HOST, "is refused"))
def test_c08_host(api: Api, written: str, message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        offer(api, host=written)
