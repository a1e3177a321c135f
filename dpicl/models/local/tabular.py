"""Tabular in-context learners on this machine: TabICL and TabPFN, by the packages of their authors.

Which of the two it is follows from the names of the weights. A file is read as weights only: no
code from it is run, pickled objects are refused, and nothing is fetched from anywhere. Everything
is computed in float32, and by public seeds.

Paper       TabICL: Qu, Holzmüller, Varoquaux and Le Morvan 2025 (arXiv 2502.05564); TabPFN v2:
            Hollmann et al. 2025 (Nature 637).
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from dpicl.ground.errors import ModelRefusedError, first_line
from dpicl.ground.installed import extra_missing
from dpicl.models.local.loading import choose_device
from dpicl.models.local.model_files import files_digest, find_checkpoint
from dpicl.models.local.tiny import UNTRAINED_NOTE
from dpicl.models.requests import LEAST_LIKELY, LabelledRows, ModelDescription

if TYPE_CHECKING:
    from dpicl.models.spec import ModelSpec

_SEED = 0
_PACKAGES = {"icl_predictor.": "tabicl", "transformer_encoder.": "tabpfn", "blocks.": "tabpfn"}
"""The package that a model is of, by what a name of its weights begins with."""
_EXPECTED = (
    "weights of TabICL (.ckpt) or of TabPFN (.ckpt or .safetensors), as their authors publish them"
)


class TabularFile:
    """A `TabularModel` from a file of weights.

    Raises:
        ModelError: its package is not installed, or the file holds no such weights.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._file = find_checkpoint(str(spec.id))
        self._device = choose_device(spec.device)
        stored = _read(self._file, spec.name)
        self._package = _package_of(stored, spec.name)
        if (needed := extra_missing(self._package)) is not None:
            raise ModelRefusedError(f"model {spec.name!r}: {needed}")
        if self._package == "tabicl" and (
            self._file.suffix != ".ckpt" or not _config(stored).get("max_classes", 1)
        ):
            raise ModelRefusedError(
                f"model {spec.name!r} is a file of TabICL that cannot be read as a classifier; "
                f"expected its .ckpt"
            )
        trained = not stored.get("dpicl_untrained", False)
        self.description = ModelDescription(
            name=spec.name,
            kind=spec.kind,
            revision="",
            digest=files_digest([self._file], ""),
            trained=trained,
            trust=spec.trust,
            note="" if trained else UNTRAINED_NOTE,
            mode=f"{self._package}, at most {spec.most_rows} released rows in context",
        )

    def log_probabilities(
        self, context: LabelledRows, queries: np.ndarray, answers: int
    ) -> np.ndarray:
        """See `TabularModel`; a context of one label, or without a column that tells rows apart,
        answers by its shares of labels.
        """
        labels, counts = np.unique(context.labels, return_counts=True)
        scores = np.full((len(queries), answers), LEAST_LIKELY)
        rows, asked, categorical = _known(context, queries)
        if len(labels) < 2 or not rows.shape[1] or not len(queries):
            likely: np.ndarray = counts / counts.sum()
        else:
            likely = self._predicted(rows, context.labels, asked, categorical)
        with np.errstate(divide="ignore"):
            scores[:, labels] = np.maximum(np.log(likely, dtype=np.float64), LEAST_LIKELY)
        return scores

    def _predicted(
        self, rows: np.ndarray, labels: np.ndarray, queries: np.ndarray, categorical: list[int]
    ) -> np.ndarray:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about sizes beyond those that it was trained on
                model = self._tabicl() if self._package == "tabicl" else self._tabpfn(categorical)
                return np.asarray(model.fit(rows, labels).predict_proba(queries))
        except torch.OutOfMemoryError:
            reason = "runs out of memory"
            expected = "fewer `rows`"
        except (ValueError, RuntimeError, KeyError, AssertionError) as error:
            reason = f"refuses a released table ({first_line(error)})"
            expected = "another model, or fewer answers, columns or `rows`"
        raise ModelRefusedError(f"model {self.description.name!r} {reason}; expected {expected}")

    def _tabicl(self) -> Any:
        from tabicl import TabICLClassifier

        return TabICLClassifier(
            model_path=self._file,
            allow_auto_download=False,
            device=str(self._device),
            use_amp=False,
            use_fa3=False,
            random_state=_SEED,
        )

    def _tabpfn(self, categorical: list[int]) -> Any:
        from tabpfn import ModelSpecs, TabPFNClassifier
        from tabpfn.model_loading import load_model

        # loaded by itself: where a path is given, a file that has gone meanwhile would be
        # downloaded
        model, _, config, inference = load_model(path=self._file, estimator_type="classifier")
        return TabPFNClassifier(
            model_path=ModelSpecs(model, config, inference),
            device=str(self._device),
            categorical_features_indices=categorical,
            ignore_pretraining_limits=True,
            inference_precision=torch.float32,
            random_state=_SEED,
        )


def _known(context: LabelledRows, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Rows, queries and categorical positions of the columns that vary in context, with the mean of
    its known values in the place of a missing
    number: both packages do so in their own ways, of which one looks at other queries.
    """
    known = np.isfinite(context.values)
    means = np.where(known, context.values, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    rows, asked = (
        np.where(np.isfinite(values), values, means) for values in (context.values, queries)
    )
    varying = np.flatnonzero((rows != rows[:1]).any(axis=0))
    return (
        rows[:, varying],
        asked[:, varying],
        [place for place, column in enumerate(varying) if column in context.categorical],
    )


def _read(file: Path, name: str) -> Mapping[str, Any]:
    """What a file holds; of one in safetensors the names of its weights alone."""
    try:
        if file.suffix == ".safetensors":
            with safe_open(file, framework="pt") as opened:
                return {"state_dict": dict.fromkeys(opened.keys())}
        stored = torch.load(file, map_location="cpu", weights_only=True)
    except (
        OSError,
        ValueError,
        RuntimeError,
        KeyError,
        EOFError,
        pickle.UnpicklingError,
        SafetensorError,
    ):
        stored = None
    if not isinstance(stored, dict) or not isinstance(stored.get("state_dict"), dict):
        raise ModelRefusedError(
            f"model {name!r} cannot be loaded as weights alone; expected {_EXPECTED}"
        )
    return stored


def _package_of(stored: Mapping[str, Any], name: str) -> str:
    for begins, package in _PACKAGES.items():
        if any(str(key).startswith(begins) for key in stored["state_dict"]):
            return package
    raise ModelRefusedError(
        f"model {name!r} holds weights of neither package; expected {_EXPECTED}"
    )


def _config(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    config = stored.get("config")
    return config if isinstance(config, dict) else {}
