"""Weights and data that come with the program: used only with the digests that are stated, one
flipped bit is refused in a sentence.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import dpicl
from dpicl.contract import load_contract
from dpicl.ground.cache import DIGESTS, checked
from dpicl.ground.errors import SourceError
from dpicl.models.kinds import local
from dpicl.models.opening import open_scorer
from dpicl.models.spec import ModelSpec
from tools.digests import SHIPPED, current

PACKAGE = Path(dpicl.__file__).parent
ROOT = PACKAGE.parent
REFUSED = (
    r"is not the file that comes with dpicl; expected its digest, so install the package again$"
)


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _copied(name: str, folder: Path) -> Path:
    copy = folder / Path(name).name
    (shutil.copytree if (PACKAGE / name).is_dir() else shutil.copyfile)(PACKAGE / name, copy)
    return copy


def test_the_digests_are_those_of_the_files() -> None:
    assert json.loads(DIGESTS.read_text("utf-8")) == current(), "python -m tools.digests"


def test_every_shipped_weight_and_table_has_a_digest() -> None:
    kinds = {".safetensors", ".csv", ".json"}
    files = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.suffix in kinds and path != DIGESTS
    }
    assert files <= json.loads(DIGESTS.read_text("utf-8")).keys()


@pytest.mark.parametrize("name", SHIPPED)
def test_a_flipped_bit_is_refused(name: str, tmp_path: Path) -> None:
    copy = _copied(name, tmp_path)
    _flipped(copy if copy.is_file() else max(copy.iterdir(), key=lambda path: path.stat().st_size))
    with pytest.raises(SourceError, match=REFUSED):
        checked(name, copy)


def test_a_file_too_many_or_too_few_is_refused(tmp_path: Path) -> None:
    copy = _copied("models/bundled", tmp_path)
    (copy / "adapter_config.json").write_text("{}")
    with pytest.raises(SourceError, match=f"^models/bundled/adapter_config.json: {REFUSED}"):
        checked("models/bundled", copy)
    (copy / "adapter_config.json").rename(copy / "tokenizer.json")
    with pytest.raises(SourceError, match=f"^models/bundled/tokenizer.json: {REFUSED}"):
        checked("models/bundled", copy)


def test_the_bundled_model_is_not_opened_with_another_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = _copied("models/bundled", tmp_path)
    _flipped(copy / "model.safetensors")
    monkeypatch.setattr(local, "BUNDLED", copy)
    spec = ModelSpec(name="ours", kind="bundled")
    with pytest.raises(SourceError, match=REFUSED):
        open_scorer(spec, models_folder=tmp_path, corpus=())
    with pytest.raises(SourceError, match=REFUSED):
        spec.fingerprint(())


def test_every_public_table_states_what_it_is() -> None:
    """By a digest of its own, or among those of benchmarks; docstrings come with this Python, and
    differ from one to the next, and the rows of docvqa nobody may hand on.
    """
    published = {
        name.partition(":")[0]
        for name in json.loads(
            (PACKAGE / "methods" / "published" / "digests.json").read_text("utf-8")
        )
    }
    for path in sorted((ROOT / "data_contracts").rglob("*.yaml")):
        contract = load_contract(path)
        assert (
            contract.name in published
            or contract.name in ("docstrings", "docvqa")
            or "content_sha256:" in path.read_text("utf-8")
        ), path
