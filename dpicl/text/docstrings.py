"""A public set of texts that is always at hand: four libraries' descriptions of their functions.

First sentences of the docstrings of public functions, methods and classes, read from the source
files of installed dependencies line by line; nothing is imported or run. Label: the library.
All four are under the BSD licence. The set changes a little with their versions, so it has no
digest.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from dpicl.errors import SourceError
from dpicl.text.fields import Fields

_PLACES = {
    "numpy": ("_core", "fft", "lib", "linalg", "ma", "matrixlib", "polynomial"),
    "pandas": (
        "core/arrays",
        "core/dtypes",
        "core/frame.py",
        "core/generic.py",
        "core/groupby",
        "core/indexes",
        "core/series.py",
    ),
    "scipy": (
        "cluster",
        "fft",
        "interpolate",
        "linalg",
        "ndimage",
        "signal",
        "spatial",
        "special",
        "sparse/linalg",
        "sparse/csgraph",
    ),
    "sklearn": (
        "base.py",
        "calibration.py",
        "cluster",
        "compose",
        "covariance",
        "decomposition",
        "dummy.py",
        "ensemble",
        "feature_extraction",
        "feature_selection",
        "gaussian_process",
        "impute",
        "isotonic.py",
        "linear_model",
        "metrics",
        "model_selection",
        "naive_bayes.py",
        "neighbors",
        "neural_network",
        "pipeline.py",
        "preprocessing",
        "svm",
        "tree",
    ),
}
"""Parts of each library that are rich in public functions, so that no library has many times the
sentences of another.
"""
_OPENED = re.compile(r"(?P<indent> *)(?:def|class) (?P<name>\w+)\s*[(:]")
_START = re.compile(r'\s+[rR]?"""(?P<rest>.*)')
_LENGTHS = range(25, 241)
_NAMES = re.compile(r"numpy|pandas|scipy|scikit|sklearn", re.IGNORECASE)
_TRAIN_SHARE = 0.85


def first_sentences() -> dict[str, Fields]:
    """Part ("train" or "test") -> fields `label` and `text`.

    A sentence stands once, is dropped where two libraries have it or where it names one of them,
    and is in a part by its own hash.

    Raises:
        SourceError: a library's source files are not there.
    """
    sentences = {library: sorted(set(_sentences(library))) for library in _PLACES}
    counts = Counter(text for texts in sentences.values() for text in texts)
    parts: dict[str, Fields] = {part: {"label": [], "text": []} for part in ("train", "test")}
    for library, texts in sentences.items():
        for text in texts:
            if counts[text] == 1:
                share = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
                fields = parts["train" if share < _TRAIN_SHARE else "test"]
                fields["label"].append(library)
                fields["text"].append(text)
    return parts


def _sentences(library: str) -> Iterator[str]:
    spec = find_spec(library)
    roots = list(spec.submodule_search_locations or ()) if spec else []
    if not roots:
        raise SourceError(
            f"docstrings: the source files of {library} are not there; expected it installed as "
            f"files"
        )
    for place in _PLACES[library]:
        path = Path(roots[0]) / place
        for file in (
            [path]
            if path.suffix
            else sorted(file for file in path.rglob("*.py") if "tests" not in file.parts)
        ):
            for paragraph in (
                _paragraphs(file.read_text("utf-8").splitlines()) if file.is_file() else ()
            ):
                sentence = re.split(r"(?<=[.!?]) (?=[A-Z])", " ".join(paragraph.split()))[0]
                if (
                    len(sentence) in _LENGTHS
                    and sentence[0].isupper()
                    and sentence.endswith(".")
                    and not _NAMES.search(sentence)
                ):
                    yield sentence


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """First paragraphs of the docstrings of public functions, and of classes and their methods."""
    outer = public = False
    for number, line in enumerate(lines):
        opened = _OPENED.match(line)
        if opened:
            public = not opened["name"].startswith("_") and (outer or not opened["indent"])
            outer = outer if opened["indent"] else public
        elif public and (start := _START.match(line)):
            public = False
            if lines[number - 1].rstrip().endswith(":"):
                text = "\n".join([start["rest"], *lines[number + 1 : number + 9]]).replace(
                    "\\\n", "\n"
                )
                yield re.split(r"\n\s*\n", text.split('"""')[0].strip())[0]
