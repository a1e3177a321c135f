"""Texts as points: the default needs no model and no data, an encoder is one like any other model,
and a server is trusted or refused.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.ground.errors import ModelError, ModelRefusedError
from dpicl.models.embedding import (
    DIMENSIONS,
    HASHED,
    HashedNGrams,
    check_embedder,
    embedder_fingerprint,
    open_embedder,
)
from dpicl.models.spec import ModelSpec

TEXTS = [
    "The meeting was moved to Friday.",
    "They moved the meeting to Friday",
    "A cat slept on the warm roof all day",
]


@given(st.lists(st.text(max_size=60), max_size=4))
def test_points_lie_on_the_sphere_and_only_what_has_content_is_anywhere(texts: list[str]) -> None:
    points = HashedNGrams().embed(texts)
    assert points.shape == (len(texts), DIMENSIONS) and np.isfinite(points).all()
    for point, text in zip(points, texts, strict=True):
        assert np.linalg.norm(point) == pytest.approx(1.0 if text.strip() else 0.0, abs=1e-9)


@given(st.lists(st.text(max_size=40), min_size=1, max_size=4), st.text(max_size=40))
def test_where_a_text_lies_follows_from_it_alone(texts: list[str], other: str) -> None:
    """No frequency is counted: one more text moves none of the others, so that one private answer
    moves one point.
    """
    alone, beside = HashedNGrams().embed(texts), HashedNGrams().embed([*texts, other])
    assert np.array_equal(alone, beside[: len(texts)])


def test_points_are_the_same_in_every_process() -> None:
    code = (
        f"from dpicl.models.embedding import HashedNGrams; "
        f"print(HashedNGrams().embed({TEXTS!r}).tobytes().hex())"
    )
    others = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert others == {HashedNGrams().embed(TEXTS).tobytes().hex() + "\n"}


def test_texts_that_share_words_are_nearer_and_common_words_count_little() -> None:
    first, again, other = HashedNGrams().embed(TEXTS)
    assert first @ again > 0.6
    assert first @ other < 0.2
    assert (
        HashedNGrams().embed(["it is on the"])[0] @ HashedNGrams().embed(["it is on the roof"])[0]
        < 0.4
    )


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT with random weights, as transformers stores it."""
    torch = pytest.importorskip("torch")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("encoder")
    words = (
        "[PAD] [UNK] [CLS] [SEP] [MASK] the meeting was moved to friday they a cat slept on warm "
        "roof all day ."
    )
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text(words.replace(" ", "\n") + "\n")
    BertTokenizerFast(vocab_file=str(vocabulary)).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words.split()),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def copy(encoder: Path, tmp_path: Path) -> Path:
    """The encoder once more, to be spoilt."""
    return Path(shutil.copytree(encoder, tmp_path / "copy"))


def spec_of(folder: Path) -> ModelSpec:
    return ModelSpec(name="small", kind="transformers", id=str(folder), device="cpu")


def test_a_plain_encoder_is_pooled_by_the_mean_of_its_tokens(encoder: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    points = open_embedder(spec_of(encoder)).embed([*TEXTS, "  "])
    tokenizer, model = AutoTokenizer.from_pretrained(encoder), AutoModel.from_pretrained(encoder)
    for point, text in zip(points, TEXTS, strict=False):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        mean = states.mean(dim=0).double().numpy()
        assert point == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5), "alone and in a batch"
    assert not points[3].any()
    alone = [open_embedder(spec_of(encoder)).embed([text])[0] for text in TEXTS]
    assert np.array_equal(points[:3], alone), "bit by bit: one answer more moves none of the others"


def test_an_encoder_is_named_by_its_files_its_pooling_included(encoder: Path, copy: Path) -> None:
    plain, named = embedder_fingerprint(spec_of(encoder)), {HASHED}
    assert embedder_fingerprint(spec_of(copy)) == plain
    (copy / "1_Pooling").mkdir()
    for mode in ("pooling_mode_cls_token", "pooling_mode_mean_tokens"):
        (copy / "1_Pooling" / "config.json").write_text(json.dumps({mode: True}))
        named.add(embedder_fingerprint(spec_of(copy)))
    shutil.rmtree(copy / "1_Pooling")
    weights = copy / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert len({*named, plain, embedder_fingerprint(spec_of(copy))}) == 5


@pytest.mark.parametrize(
    "parts, reason",
    [
        ([{"type": "own_code.Model"}], "has a part 'own_code.Model'"),
        (
            [{"type": "sentence_transformers.models.Dense"}],
            "has a part 'sentence_transformers.models.Dense'",
        ),
        ([{"kind": "x"}], "its modules.json is damaged"),
    ],
)
def test_parts_with_code_or_weights_of_another_kind_are_refused(
    copy: Path, parts: Any, reason: str
) -> None:
    (copy / "modules.json").write_text(json.dumps(parts))
    with pytest.raises(ModelError, match=reason):
        open_embedder(spec_of(copy))


def test_pickled_weights_are_refused(copy: Path) -> None:
    import torch

    (copy / "model.safetensors").unlink()
    torch.save({}, copy / "pytorch_model.bin")
    with pytest.raises(ModelError, match="cannot be loaded"):
        open_embedder(spec_of(copy))


REMOTE = ModelSpec(name="far", kind="endpoint", id="m", url="https://example.org/v1")


@pytest.mark.parametrize(
    "spec, reason",
    [
        (REMOTE, "not trusted with private rows"),
        (ModelSpec(name="tiny", kind="tiny"), "of kind tiny"),
    ],
)
def test_what_may_not_see_answers_or_places_nothing_is_refused(
    spec: ModelSpec, reason: str
) -> None:
    with pytest.raises(ModelRefusedError, match=reason):
        check_embedder(spec)


class _Handler(BaseHTTPRequestHandler):
    answers: list[Any] = []
    bodies: list[Any] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append((self.path, body))
        reply = self.answers.pop(0) if self.answers else None
        rows = [
            {"index": place, "embedding": [3.0 + len(text), 4.0]}
            for place, text in enumerate(body["input"])
        ]
        content = json.dumps({"data": rows} if reply is None else reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server() -> Iterator[ModelSpec]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    _Handler.answers, _Handler.bodies = [], []
    yield ModelSpec(
        name="near",
        kind="endpoint",
        id="m",
        url=f"http://127.0.0.1:{httpd.server_address[1]}/v1",
        trust="local",
    )
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_a_server_s_points_come_in_the_order_of_the_texts_on_the_sphere(server: ModelSpec) -> None:
    open_embedder.cache_clear()
    points = open_embedder(server).embed(["", "a", "bbb"])
    assert points.tolist() == [
        [0.0, 0.0],
        pytest.approx([4 / 32**0.5, 4 / 32**0.5]),
        pytest.approx([6 / 52**0.5, 4 / 52**0.5]),
    ]
    asked = [
        ("/v1/embeddings", {"model": "m", "input": [text], "encoding_format": "float"})
        for text in ("a", "bbb")
    ]
    assert sorted(_Handler.bodies, key=str) == asked, (
        "one private answer a request: no other depends on what becomes of it"
    )
    assert embedder_fingerprint(server) != embedder_fingerprint(
        server.model_copy(update={"id": "n"})
    )


@pytest.mark.parametrize(
    "garbled",
    [
        {},
        {"data": []},
        {"data": [{"index": 0, "embedding": [0.0]}]},
        {"data": [{"index": 0, "embedding": ["x"]}]},
    ],
)
def test_a_garbled_reply_is_asked_for_again(server: ModelSpec, garbled: Any) -> None:
    _Handler.answers = [garbled]
    assert open_embedder(server).embed(["a"]).shape == (1, 2) and len(_Handler.bodies) == 2
