"""What packages are installed: what others contribute, and which extra brings one that is
missing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from importlib.util import find_spec

_EXTRAS = {
    "endpoint": ("httpx", "tenacity"),
    "evaluation": ("diffprivlib", "rapidfuzz", "rouge_score", "sacrebleu"),
    "excel": ("openpyxl",),
    "local": (
        "accelerate",
        "gguf",
        "prv_accountant",
        "safetensors",
        "sentence_transformers",
        "torch",
        "transformers",
    ),
    "mlflow": ("mlflow",),
    "openlineage": ("openlineage",),
    "pipeline": (
        "dask",
        "distributed",
        "fastapi",
        "great_expectations",
        "prefect",
        "prefect_dask",
        "prometheus_client",
    ),
    "plot": ("matplotlib",),
    "postgresql": ("psycopg",),
    "tabular": ("tabicl", "tabpfn"),
}
EXTRA_OF = {package: extra for extra, packages in _EXTRAS.items() for package in packages}
"""The extra that brings a package, by the name that it is imported by; any other missing package is
a defect.
"""

_BRING_TORCH = {"local", "tabular"}
FROM_CLONE = "in the folder that contains the clone of dpicl type"
"""What every hint of an installation begins with."""
_read = cache(entry_points)


def contributed(group: str) -> EntryPoints:
    """The entry points of a group; read once, since that takes as long as a release draws."""
    return _read().select(group=group)


def extra_missing(package: str) -> str | None:
    """What to type, as a sentence without its stop, where a package of an extra is not installed;
    else None.
    """
    with suppress(ModuleNotFoundError):
        if find_spec(package) is not None:
            return None
    return f"{package} is not installed; {to_install(EXTRA_OF[package])}"


def to_install(extra: str) -> str:
    """How an extra is installed, for messages: from a clone, since no package index has dpicl, and
    who registered its name there would run code beside private data.
    """
    brings_torch = not _BRING_TORCH.isdisjoint(extra.split(","))
    smaller = " (docs/how-to/install.md: without CUDA)" if brings_torch else ""
    return f"{FROM_CLONE} `pip install './dpicl[{extra}]'`{smaller}"


def extra_of(error: ImportError) -> str | None:
    """The same of a failed import; None where no extra brings what it misses."""
    package = (error.name or "").partition(".")[0]
    return extra_missing(package) if package in EXTRA_OF else None


@contextmanager
def importing() -> Iterator[None]:
    """Around imports of much: nothing becomes garbage meanwhile, and looking for it would take an
    eighth of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
