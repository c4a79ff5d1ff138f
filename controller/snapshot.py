"""The plain snapshot: the state under the lab's own names, for programs that read the old hand-kept JSON file."""

from collections.abc import Mapping, Sequence
from typing import Any

from controller.facts import GpuEntry, Phase, RuntimeTopologyStatus

READINGS = ("gpu_temp_c", "gpu_load_pct", "gpu_power_w", "gpu_fan_rpm")
"""What an active card shows; null where its exporter does not say."""


def snapshot(status: RuntimeTopologyStatus) -> dict[str, Any]:
    """Return the state as JSON data; `mode` is null before the first one. A card goes by its model there."""
    return {
        "mode": status.mode,
        "active_gpus": _cards(status.active_gpus),
        "inventory_gpus": _cards(status.inventory_gpus),
        "unexpected_down": _cards(status.unexpected_down),
    }


def _cards(entries: Sequence[GpuEntry]) -> list[Mapping[str, Any]]:
    return [
        {
            "name": entry.model,
            "host": entry.host,
            "vram_gb": entry.vram_gb,
            "status": entry.status,
            "expected_offline": entry.expected_offline,
            **({name: getattr(entry, name) for name in READINGS} if entry.status is Phase.ONLINE else {}),
        }
        for entry in entries
    ]
