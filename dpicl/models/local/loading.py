"""Loading a model in the usual transformers layout: a language model with its tokenizer and chat
template, or a sentence encoder; and whether it fits the memory, which its files say beforehand.

No code from a model's folder is run, and no pickled weights are read. A chat gets the same messages
as that of a server. An encoder's vectors of tokens are pooled, in the layout of
sentence-transformers or plain.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from math import prod
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging as transformers_logging

from dpicl.ground.errors import ModelError, ParameterError, first_line
from dpicl.models.endpoint.protocol import chat_messages
from dpicl.models.local.model_files import (
    Dtype,
    find_model_files,
    package_of,
    quantisation,
    read_config,
)
from dpicl.models.requests import Tokens, overlap

if TYPE_CHECKING:
    from dpicl.models.spec import ModelSpec


def load(folder: Path, name: str, dtype: Dtype, device: str) -> tuple[Any, Any]:
    """Tokenizer and model from a folder, offline, on its device or devices.

    `dtype` goes to `from_pretrained`, which keeps the rotary frequencies in float32; a
    later `.to(torch.bfloat16)` would round them and move decisions in long prompts.
    Weights go straight to their device, and those of a model that one GPU does not hold to several.

    Raises:
        ModelError: files are missing, broken or not of a model that can be scored, or memory does
            not suffice.
        ParameterError: this machine does not have the device.
    """
    chosen = choose_device(device)
    method = quantisation(read_config(str(folder), None))
    package = package_of(method) if method else None
    if package and find_spec(package) is None:
        raise ModelError(
            f"model {name!r} is quantised by {method}; type `pip install {package}`, or expected "
            f"a checkpoint that is not"
        )
    places = placed(folder, name, dtype, chosen, several=device == "auto")
    transformers_logging.disable_progress_bar()
    # one model is open at a time
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    safely: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    weights: dict[str, Any] = {
        "dtype": torch.float32 if dtype == "tf32" else getattr(torch, dtype),
        "use_safetensors": True,
    }
    weights |= {"output_loading_info": True, "device_map": places}
    loaded: Any
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **safely)
        loaded = AutoModelForCausalLM.from_pretrained(folder, **weights, **safely)
    except torch.OutOfMemoryError:
        raise ModelError(
            f"model {name!r} does not fit on {chosen}; expected dtype bfloat16 or a smaller model"
        ) from None
    except Exception as error:  # noqa: BLE001 - every architecture fails in ways of its own
        raise ModelError(
            f"model {name!r} cannot be loaded ({first_line(error)}); expected config, safetensors "
            f"and tokenizer files"
        ) from None
    model, report = loaded
    missing = len(report["missing_keys"]) + len(report["mismatched_keys"])
    if missing:
        raise ModelError(
            f"model {name!r} lacks {missing} of its weights; expected complete safetensors files"
        )
    # its own penalties, forced tokens and the like would make the likeliest token another one
    model.generation_config = GenerationConfig(eos_token_id=model.generation_config.eos_token_id)
    return tokenizer, model


def vocabulary_of(model: Any, name: str) -> int:
    """Ids of tokens that a model can read are below it. Raises ModelError: it has no such table."""
    try:
        return int(model.get_input_embeddings().weight.shape[0])
    except Exception:  # noqa: BLE001 - as above
        raise ModelError(
            f"model {name!r} is a {type(model).__name__} without a table of tokens; expected a "
            f"language model"
        ) from None


def leading_tokens(tokenizer: Any) -> Tokens:
    """What this tokenizer puts before a text by itself, such as a start token."""
    plain = tokenizer("a", add_special_tokens=False).input_ids
    marked = tokenizer("a").input_ids
    return tuple(marked[: marked.index(plain[0])])


def known_tokens(tokenizer: Any) -> list[int]:
    """Ids that the tokenizer has a text for, ascending; a model's own vocabulary may be padded
    beyond them.
    """
    return sorted(set(tokenizer.get_vocab().values()))


def ending_tokens(tokenizer: Any, model: Any) -> frozenset[int]:
    """The model's own ends, all tokens that hold a line break, and " END" where it is one token
    after a text.
    """
    ends = model.generation_config.eos_token_id
    own = [tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])]
    known = known_tokens(tokenizer)
    breaks = [
        token
        for token, text in zip(
            known, tokenizer.batch_decode([[token] for token in known]), strict=True
        )
        if "\n" in text
    ]
    before, whole = (tokenizer(text, add_special_tokens=False).input_ids for text in (":", ": END"))
    marks = whole[len(before) :] if whole[:-1] == before else []
    return frozenset(int(token) for token in (*own, *breaks, *marks) if token is not None)


_CONTENT = "dpicl asks this"
_ANSWER = "and gets this"
_UNDATED = "{%- macro strftime_now(form) -%}01 Jan 2026{%- endmacro -%}"
"""Before a template that writes the day's date: prompts of tomorrow are those of today."""


def told_apart(labels: list[Tokens], name: str) -> list[Tokens]:
    """Labels' tokens. Raises ModelError: one begins another all the same, so that to score both
    would compare a part with the whole.
    """
    if overlap(labels):
        raise ModelError(
            f"model {name!r} has a tokenizer by which one label begins another or is it, whatever "
            "ends them; expected labels that differ in more than it drops, or another model"
        )
    return labels


class ChatTemplate:
    """A tokenizer's template for one message of a user, up to where the answer begins.

    Raises:
        ModelError: there is none, or it does not write out a user's message.
    """

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._tokenizer = tokenizer
        self._name = name
        if not getattr(tokenizer, "chat_template", None):
            raise ModelError(
                f"model {name!r} has no chat template; expected api completions, or an instruct "
                f"model's folder"
            )
        if self._written([{"role": "user", "content": _CONTENT}]).count(_CONTENT) != 1:
            raise ModelError(
                f"model {name!r} has a chat template that does not write out a message; expected "
                f"api completions"
            )
        self._labels: dict[tuple[str, tuple[str, ...]], list[Tokens]] = {}

    def text_tokens(self, prompt: str) -> Tokens:
        """Of a prompt whose answer is a text."""
        return self._tokens(self._written([{"role": "user", "content": prompt}]))

    def label_tokens(self, prompt: str, labels: Sequence[str]) -> tuple[Tokens, list[Tokens]]:
        """Of a prompt, and of each label that may be answered to it.

        Raises:
            ModelError: a label's tokens cannot be told from those of the prompt.
        """
        text = prompt.rstrip()
        written = self._written(chat_messages(text, labels))
        ending = written[written.rfind(text[-1:]) if text else 0 :]
        if (ending, tuple(labels)) not in self._labels:
            before = self._tokens(ending)
            wholes = [self._tokens(ending + label.strip(" ")) for label in labels]
            for label, whole in zip(labels, wholes, strict=True):
                if whole[: len(before)] != before or len(whole) == len(before):
                    raise ModelError(
                        f"label {label!r} changes the tokens of model {self._name!r}'s chat "
                        f"template; expected api completions"
                    )
            cut = [whole[len(before) :] for whole in wholes]
            if overlap(label.strip() for label in labels) or overlap(cut):
                cut = told_apart([tokens + self._turn_end for tokens in cut], self._name)
            self._labels[ending, tuple(labels)] = cut
        return self._tokens(written), self._labels[ending, tuple(labels)]

    @cached_property
    def _turn_end(self) -> Tokens:
        """The token that the template writes after an answer; where it writes none, the tokenizer's
        own end.
        """
        turn = [{"role": "user", "content": _CONTENT}, {"role": "assistant", "content": _ANSWER}]
        after = self._tokens(self._written(turn, answered=True).rpartition(_ANSWER)[2].lstrip(" "))
        own = self._tokenizer.eos_token_id
        return after[:1] or (() if own is None else (int(own),))

    def _written(self, messages: list[dict[str, str]], *, answered: bool = False) -> str:
        """Up to where the answer begins, or the whole of one that was answered."""
        try:
            options = {
                "chat_template": _UNDATED + self._tokenizer.get_chat_template(),
                "add_generation_prompt": not answered,
            }
            return str(self._tokenizer.apply_chat_template(messages, tokenize=False, **options))
        except Exception as error:  # noqa: BLE001 - a template may fail in any way
            kind = type(error).__name__
        raise ModelError(
            f"model {self._name!r} has a chat template that fails ({kind}); expected api "
            f"completions"
        )

    def _tokens(self, text: str) -> Tokens:
        """A template writes its own start tokens."""
        return tuple(self._tokenizer(text, add_special_tokens=False, verbose=False).input_ids)


_AT_ONCE = 1
"""In a batch the length of one text would move the points of others by rounding: one private answer
moves its own point only.
"""
_MODULES = {
    f"sentence_transformers.models.{name}" for name in ("Transformer", "Pooling", "Normalize")
}
_one_at_a_time = Lock()


class SentenceEncoder:
    """One encoder, in float32. A folder without a pooling of its own is pooled by the mean; texts
    are cut at its longest.

    Raises:
        ModelError: files are missing, broken, or not of an encoder; or it has further parts, whose
            code or weights are not read.
    """

    def __init__(self, spec: ModelSpec) -> None:
        # a second to import, which language models do without
        from sentence_transformers import SentenceTransformer

        folder, _ = find_model_files(str(spec.id), spec.revision)
        _check_modules(folder, spec.name)
        transformers_logging.disable_progress_bar()
        try:
            self._model = SentenceTransformer(
                str(folder),
                device=str(choose_device(spec.device)),
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True, "dtype": torch.float32},
            )
        except Exception as error:  # noqa: BLE001 - every architecture fails in ways of its own
            raise ModelError(
                f"embedder {spec.name!r} cannot be loaded ({first_line(error)}); expected a "
                f"sentence encoder with safetensors"
            ) from None

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `Embedder.embed`."""
        with _one_at_a_time:
            points = self._model.encode(
                list(texts), batch_size=_AT_ONCE, normalize_embeddings=True, show_progress_bar=False
            )
        has_content = np.array([bool(text.strip()) for text in texts], dtype=bool)
        return (
            np.asarray(points, dtype=np.float64).reshape(len(texts), -1)
            * has_content[:, np.newaxis]
        )


def _check_modules(folder: Path, name: str) -> None:
    """Of a folder that names its parts: only those that hold no code and no pickled weights."""
    stated = folder / "modules.json"
    if not stated.exists():
        return
    try:
        kinds = [str(part["type"]) for part in json.loads(stated.read_text("utf-8"))]
    except (ValueError, KeyError, TypeError):
        raise ModelError(
            f"embedder {name!r}: its modules.json is damaged; expected that of "
            f"sentence-transformers"
        ) from None
    if odd := [kind for kind in kinds if _plain(kind) not in _MODULES]:
        raise ModelError(
            f"embedder {name!r} has a part {odd[0][:80]!r}; expected an encoder, its pooling and "
            f"a normalisation alone"
        )


def _plain(kind: str) -> str:
    """A part's class as all versions of the library have named it."""
    if kind.startswith("sentence_transformers."):
        return f"sentence_transformers.models.{kind.rpartition('.')[2]}"
    return kind


_BYTES: dict[Dtype, int] = {"float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2}
_FLOATS = ("F64", "F32", "F16", "BF16")
_ROOM = 1.05
"""Weights are not all: buffers, and one layer that is converted."""


def needed_bytes(folder: Path, dtype: Dtype) -> int | None:
    """What a model's weights take in memory, by the headers of its safetensors files; None where
    there are none that can be read.

    Quantised weights, and others that are no floating-point numbers, stay as they are.
    """
    quantised = quantisation(read_config(str(folder), None)) is not None
    total = 0
    index = folder / "model.safetensors.index.json"
    try:
        named = (
            {*json.loads(index.read_text("utf-8"))["weight_map"].values()}
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
            header.pop("__metadata__", None)
            for tensor in header.values():
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
    needed = needed_bytes(folder, dtype)
    free = free_bytes(device)
    if needed is None or free is None or needed * _ROOM <= free:
        return {"": device}
    if several and device.type == "cuda":
        devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
        free = sum(free_bytes(gpu) or 0 for gpu in devices)
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
    needed = needed_bytes(folder, dtype)
    free = free_bytes(chosen)
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
