"""Files of tabular models with random weights: the true architectures, of their authors' packages,
narrower and with fewer layers.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

PACKAGES = ("tabicl", "tabpfn")
every_package = pytest.mark.parametrize("package", PACKAGES)
_NARROW = {
    "embed_dim": 16,
    "col_num_blocks": 1,
    "col_nhead": 2,
    "col_num_inds": 8,
    "row_num_blocks": 1,
    "row_nhead": 2,
    "row_num_cls": 2,
    "icl_num_blocks": 2,
    "icl_nhead": 2,
    "zero_init": False,
}


def random_weights(package: str, file: Path, **changes: Any) -> Path:
    """A checkpoint as its authors publish them, marked as untrained; skips where the package is not
    installed.

    Args:
        changes: of the architecture; TabICL's `narrow=False` is the published size.
    """
    pytest.importorskip(
        package, reason=f"{package} is of the extra `tabular`, which is not installed"
    )
    narrow = changes.pop("narrow", True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if package == "tabicl":
            from tabicl._model.tabicl import TabICL

            config = {"zero_init": False, **(_NARROW if narrow else {}), **changes}
            model: torch.nn.Module = TabICL(**config)
        else:
            from tabpfn.architectures.tabpfn_v2 import TabPFNV2Config, get_architecture

            chosen = TabPFNV2Config(
                **{"max_num_classes": 10, "emsize": 24, "nlayers": 2, "nhead": 2, **changes}
            )
            model, config = get_architecture(chosen), asdict(chosen)
            for weights in model.parameters():
                torch.nn.init.normal_(weights, std=0.2)
    torch.save({"config": config, "state_dict": model.state_dict(), "dpicl_untrained": True}, file)
    return file
