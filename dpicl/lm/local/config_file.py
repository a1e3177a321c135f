"""What a model's config says before its weights are there: the type they are kept in, and whether
they are quantised. No torch needed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpicl.errors import ModelError
from dpicl.lm.local.model_files import Dtype, find_model_files, is_model_folder

_KEPT: dict[str, Dtype] = {"float32": "float32", "float16": "float16", "bfloat16": "bfloat16"}
_PACKAGES = {
    "aqlm": "aqlm",
    "auto-round": "auto_round",
    "awq": "gptqmodel",
    "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed_tensors",
    "eetq": "kernels",
    "fbgemm_fp8": "fbgemm_gpu",
    "fp_quant": "fp_quant",
    "gptq": "gptqmodel",
    "higgs": "flute",
    "hqq": "hqq",
    "quanto": "optimum",
    "quark": "quark",
    "sinq": "sinq",
    "spqr": "spqr_quant",
    "torchao": "torchao",
    "vptq": "vptq",
}
"""What transformers loads a quantised checkpoint with, by the method that its config names."""


def read_config(path_or_id: str, revision: str | None) -> dict[str, Any]:
    """A model's config.json; of a model on the hub it is fetched alone, before its weights.

    Raises:
        ModelError: it is not there, or not of this form.
    """
    if is_model_folder(path_or_id):
        file = Path(path_or_id).expanduser() / "config.json"
    else:
        folder, _ = find_model_files(path_or_id, revision, only=["config.json"])
        file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict):
        raise ModelError(
            f"model {path_or_id!r} cannot be loaded (config.json is not readable); expected a "
            f"model in the usual layout"
        )
    return config


def kept_dtype(config: dict[str, Any]) -> Dtype:
    """The type that a checkpoint's weights are kept in; float32 where it says none, bfloat16 where
    it is one that nothing is computed in.
    """
    text = config.get("text_config")
    stated = next(
        (
            one[key]
            for one in (config, text if isinstance(text, dict) else {})
            for key in ("dtype", "torch_dtype")
            if one.get(key)
        ),
        "float32",
    )
    return _KEPT.get(str(stated).removeprefix("torch."), "bfloat16")


def quantisation(config: dict[str, Any]) -> str | None:
    """The method by which a checkpoint is quantised, if it is."""
    text = config.get("text_config")
    stated = config.get("quantization_config") or (
        text.get("quantization_config") if isinstance(text, dict) else None
    )
    return str(stated.get("quant_method") or "bitsandbytes") if isinstance(stated, dict) else None


def package_of(method: str) -> str | None:
    """The package without which a checkpoint that is quantised so cannot be loaded, by the name
    that it is imported by.
    """
    return _PACKAGES.get(method)
