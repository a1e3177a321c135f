"""Whether a model fits, before it is loaded: the sizes in its files against the memory that is
free.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import torch

from dpicl.errors import ModelError, ParameterError
from dpicl.lm.local.config_file import quantisation, read_config
from dpicl.lm.local.model_files import Dtype

_BYTES: dict[Dtype, int] = {"float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2}
_FLOATS = ("F64", "F32", "F16", "BF16")
_ROOM = 1.05
"""Weights are not all: buffers, and one layer that is converted."""


def needed_bytes(folder: Path, dtype: Dtype) -> int | None:
    """What a model's weights take in memory, by the headers of its safetensors files; None where
    there are none that can be read.

    Quantised weights, and others that are no floating-point numbers, stay as they are.
    """
    quantised, total = quantisation(read_config(str(folder), None)) is not None, 0
    index = folder / "model.safetensors.index.json"
    try:
        named = (
            {*json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()}
            if index.exists()
            else None
        )
        files = [
            path
            for path in sorted(folder.glob("*.safetensors"))
            if named is None or path.name in named
        ]
        for path in files:
            with path.open("rb") as file:
                header: dict[str, Any] = json.loads(
                    file.read(int.from_bytes(file.read(8), "little"))
                )
            for tensor in (one for key, one in header.items() if key != "__metadata__"):
                begin, end = tensor["data_offsets"]
                total += (
                    prod(tensor["shape"]) * _BYTES[dtype]
                    if tensor["dtype"] in _FLOATS and not quantised
                    else end - begin
                )
    except (OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError):
        return None
    return total if files else None


def free_bytes(device: torch.device) -> int | None:
    """Memory that is free on a device, as far as the system says."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = []
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free.append(int(lines["MemAvailable"].split()[0]) * 1024)
        group = Path("/sys/fs/cgroup")
        cached = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())[
            "inactive_file"
        ]
        free.append(
            int((group / "memory.max").read_text())
            - int((group / "memory.current").read_text())
            + int(cached)
        )
    except (OSError, ValueError, KeyError):
        pass
    return min(free, default=None)


def placed(
    folder: Path, name: str, dtype: Dtype, device: torch.device, *, several: bool
) -> str | dict[str, torch.device]:
    """Where the weights go: to the device, or to all GPUs where one does not hold them.

    Args:
        several: whether a model may lie on several devices.

    Raises:
        ModelError: it needs more memory than is free; says how much.
    """
    needed, free = needed_bytes(folder, dtype), free_bytes(device)
    if needed is None or free is None or needed * _ROOM <= free:
        return {"": device}
    if several and device.type == "cuda":
        devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
        free = sum(free_bytes(one) or 0 for one in devices)
        if len(devices) > 1 and needed * _ROOM <= free:
            return "auto"
    raise ModelError(
        f"model {name!r} needs {needed / 1e9:.1f} GB for its weights in {dtype}, and "
        f"{free / 1e9:.1f} GB are free on {device.type}; "
        f"expected a smaller model{', dtype bfloat16' if _BYTES[dtype] > 2 else ''}, fewer "
        f"workers, each of which loads it, or more memory"
    )


def described(folder: Path, name: str, dtype: Dtype, device: str) -> str:
    """What is needed and what is free, in words. Raises ModelError: it does not fit."""
    chosen = choose_device(device)
    placed(folder, name, dtype, chosen, several=device == "auto")
    needed, free = needed_bytes(folder, dtype), free_bytes(chosen)
    return f"{_gigabytes(needed)} for weights in {dtype}, {_gigabytes(free)} free on {chosen.type}"


def _gigabytes(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 1e9:.2g} GB"


def choose_device(device: str) -> torch.device:
    """The device that `auto`, `cpu`, `cuda` or `cuda:N` means here.

    Raises:
        ParameterError: this machine does not have it.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = torch.device(device)
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise ParameterError(
            "device",
            device,
            f"auto or cpu; the number of CUDA devices here is {torch.cuda.device_count()}",
        )
    return chosen
