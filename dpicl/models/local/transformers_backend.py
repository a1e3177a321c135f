"""Scoring and voting with a local model in the usual transformers layout, on a CPU or a GPU.

Tokens are cut as in lm-evaluation-harness: a continuation's tokens are those of prompt +
continuation without those of the prompt, and blanks at the prompt's end count as part of
the continuation. Of continuations that are compared only one can be said: where one begins another,
all are scored with what ends them (`requests.line_end`, `loading.ChatTemplate`). Equal prompts are
computed once, and so are beginnings that prompts share, where the model's attention allows it
(`tree_reader`). The batches follow from the set of prompts alone, so their order never changes a
result.

Nothing is truncated, no code from a model's folder is run, and no pickled weights are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch

from dpicl.ground.errors import ModelError, TooLongError
from dpicl.models.local.generation import Writing, find_writing, generate
from dpicl.models.local.gguf_file import log
from dpicl.models.local.growing_rows import CachedSession, token_bytes
from dpicl.models.local.loading import (
    ChatTemplate,
    ending_tokens,
    known_tokens,
    leading_tokens,
    load,
    told_apart,
    vocabulary_of,
)
from dpicl.models.local.model_files import Dtype, find_model_files, is_model_folder, weights_digest
from dpicl.models.local.packed_rows import LlamaPass, NotShareable
from dpicl.models.local.padded_reader import (
    READ_AS,
    LoadedModel,
    PlacedLogits,
    Row,
    read_padded,
    rows_of,
)
from dpicl.models.local.reading_mode import (
    PROBE_TEXT,
    KeptCheck,
    context_of,
    find,
    probe_length,
    probe_rows,
)
from dpicl.models.local.tiny import UNTRAINED_NOTE
from dpicl.models.local.tree_reader import read_shared
from dpicl.models.local.vote_reader import Reader, count_votes
from dpicl.models.requests import (
    ModelDescription,
    Progress,
    Sampling,
    Tokens,
    Trust,
    line_end,
    overlap,
    prompt_ending,
)
from dpicl.models.votes import VoteRequest, VoteRule, Votes, VotingSession, check_sums

_TOKEN_BUDGET = {"cpu": 4096, "cuda": 16384}


class TransformersScorer:
    """A `Scorer` and a `GeneratorModel` around one loaded causal language model.

    Args:
        path_or_id: a folder with config.json, or a hub id `org/name`.
        revision: branch, tag or commit on the hub.
        dtype: of the weights; probabilities are always float32.
        chat: prompts are messages of a chat, written out by the model's template; votes stay what
            they are.
        device: `auto` (a GPU if there is one), `cpu`, `cuda` or `cuda:N`.
        token_budget: tokens per forward pass; a batch that does not fit is halved. By default
            what runs fastest: small batches stay in a CPU's cache, large ones fill a GPU.
        share: read shared beginnings once; off, rows are padded to batches.
        name, kind, trust: what the description says; the name defaults to the id.
        quiet: what it is doing is logged for debugging only.

    Raises:
        ModelError: the model is missing, gated, incomplete or not of a kind that can be scored.
    """

    def __init__(
        self,
        path_or_id: str,
        *,
        revision: str | None = None,
        dtype: Dtype = "float32",
        device: str = "auto",
        chat: bool = False,
        token_budget: int | None = None,
        share: bool = True,
        name: str | None = None,
        kind: str = "transformers",
        trust: Trust = "local",
        quiet: bool = False,
    ) -> None:
        folder, commit = find_model_files(path_or_id, revision)
        self._name = name or (folder.name if is_model_folder(path_or_id) else path_or_id)
        self._dtype = dtype
        self._tell = log.debug if quiet else log.info
        self._tell("model %s: opening it", self._name)
        self._tokenizer, self._model = load(folder, self._name, dtype, device)
        self.device: torch.device = self._model.device
        self._token_budget = token_budget or _TOKEN_BUDGET[self.device.type]
        self._chat = ChatTemplate(self._tokenizer, self._name) if chat else None
        self.leading: Tokens = leading_tokens(self._tokenizer)
        self._known = torch.tensor(known_tokens(self._tokenizer), device=self.device)
        # a token from here on would end a GPU's work for good
        self._vocabulary = vocabulary_of(self._model, self._name)
        length = probe_length(self._model.config)
        self._probe: Tokens = tuple(
            token % self._vocabulary for token in (self.leading + self.encode(PROBE_TEXT))[:length]
        )
        kind_of_device = self.device.type
        if kind_of_device == "cuda":  # two kinds of GPU may differ
            kind_of_device = torch.cuda.get_device_name(self.device)
        self._kept = KeptCheck(folder, dtype, kind_of_device, f"{share=}")
        found = self._kept.found.reading
        if found is None or not found.applied(self._model):
            self._tell("model %s: checking on public text how it may be read, once", self._name)
            found = find(self._model, self._name, self._probe, self.device, share=share)
            self._kept.keep(replace(self._kept.found, reading=found))
        self.mode = found.mode
        self.shares = found.shares
        self._pass = LlamaPass.of(self._model) if found.own_pass else None
        trained = not getattr(self._model.config, "dpicl_untrained", False)
        self.description = ModelDescription(
            name=self._name,
            kind=kind,
            revision=commit,
            digest=weights_digest(path_or_id, revision),
            trained=trained,
            trust=trust,
            note=getattr(self._model.config, "dpicl_note", "") if trained else UNTRAINED_NOTE,
            mode=_mode(dtype, chat=chat),
        )

    def score(
        self,
        prompts: Sequence[str],
        continuations: Sequence[str],
        *,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """See `Scorer.score`.

        Raises:
            ModelError: before anything is computed, if a prompt is longer than the model's context.
        """
        unique = sorted(set(prompts))
        place = {prompt: index for index, prompt in enumerate(unique)}
        order = np.array([place[prompt] for prompt in prompts], dtype=np.int64)
        rows = self._rows(unique, continuations)
        longest = {row.prompt: row.tokens for row in sorted(rows, key=lambda row: len(row.tokens))}
        self._check_rows(list(longest.values()))
        scores = np.zeros((len(unique), len(continuations)))
        pending = np.zeros(len(unique), dtype=np.int64)
        for row in rows:
            pending[row.prompt] += len(row.predicted)
        for places, logits in self._read(
            [row.tokens for row in rows], [tuple(row.predicted) for row in rows]
        ):
            steps = [
                (line, token, rows[row].prompt, continuation)
                for line, (row, position) in enumerate(places)
                for continuation, token in rows[row].predicted[position]
            ]
            if steps:
                line, token, prompt, continuation = np.array(steps).T
                values = (
                    logits.float()
                    .log_softmax(-1)[torch.from_numpy(line), torch.from_numpy(token)]
                    .double()
                    .cpu()
                    .numpy()
                )
                if not np.isfinite(values).all():
                    raise ModelError(
                        f"model {self._name!r} answered with numbers that are not finite; "
                        f"expected dtype float32 or bfloat16"
                    )
                np.add.at(scores, (prompt, continuation), values)
            np.subtract.at(pending, [rows[row].prompt for row, _ in places], 1)
            if progress is not None:
                progress(int((pending[order] == 0).sum()))
        return scores[order]

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[str]:
        """What the model writes after each prompt; see `generation.generate`.

        Raises:
            ModelError: as `score`; prompt and new tokens must fit the context together.
        """
        rows = [
            self._chat.text_tokens(prompt) if self._chat else self._prompt_tokens(prompt)
            for prompt in prompts
        ]
        self._check_rows([row + (0,) * sampling.new_tokens for row in rows])
        texts = generate(self._loaded, self._tokenizer, rows, sampling, self.writing)
        return [text.lstrip() for text in texts] if self._chat else texts

    @cached_property
    def by_template(self) -> TransformersScorer:
        """The same model, loaded once, as one of `chat`. Raises ModelError: it has no chat template
        that can be used.
        """
        other = copy(self)
        other._chat = ChatTemplate(self._tokenizer, self._name)
        other.description = replace(self.description, mode=_mode(self._dtype, chat=True))
        return other

    @property
    def context(self) -> int | None:
        """See `GeneratorModel.context`."""
        return context_of(self._model.config)

    @property
    def reads(self) -> str:
        """How prompts are read, in words."""
        return "shared beginnings" if self.shares else READ_AS[self.mode.layout]

    @cached_property
    def writing(self) -> Writing:
        """How texts are written."""
        found = self._kept.found.writing
        if found is None:
            self._tell("model %s: checking on public text how it writes, once", self._name)
            found = find_writing(self._loaded, probe_rows(self._probe)[:3])
            self._kept.keep(replace(self._kept.found, writing=found))
        return found

    @cached_property
    def steps(self) -> bool:
        """Whether voters that stay are kept, and read in steps."""
        return token_bytes(self._reader()) is not None

    @cached_property
    def ends(self) -> frozenset[int]:
        """See `GeneratorModel.ends`."""
        return ending_tokens(self._tokenizer, self._model)

    def encode(self, text: str) -> Tokens:
        """See `GeneratorModel.encode`."""
        return tuple(self._tokenizer(text, add_special_tokens=False, verbose=False).input_ids)

    def decode(self, tokens: Tokens) -> str:
        """See `GeneratorModel.decode`."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def vote(self, requests: Sequence[VoteRequest], rule: VoteRule) -> list[Votes]:
        """See `GeneratorModel.vote`; equal prompts are read once."""
        check_sums(requests, rule)
        votes = count_votes(self._reader(), dict(enumerate(requests)), rule)
        return [votes[number] for number in range(len(requests))]

    def session(self, requests: Sequence[VoteRequest], rule: VoteRule) -> VotingSession:
        """See `GeneratorModel.session`; keys and values of every row are kept as long as memory
        suffices.
        """
        check_sums(requests, rule)
        return CachedSession(self._reader(), requests, rule)

    def _reader(self) -> Reader:
        """What votes are read with: as all prompts are."""
        return Reader(
            self._model,
            self.device,
            self._token_budget,
            self._name,
            self._known,
            self.context,
            self._vocabulary,
            self._read,
            self._pass,
            mode=self.mode,
        )

    @property
    def _loaded(self) -> LoadedModel:
        return LoadedModel(self._model, self.device, self._token_budget, mode=self.mode)

    def _read(self, rows: Sequence[Tokens], wanted: Sequence[Sequence[int]]) -> PlacedLogits:
        """Logits at the wanted positions; beginnings are shared where that is possible."""
        if self.shares and not self.mode.is_apart(max(map(len, rows), default=0)):
            try:
                yield from read_shared(self._loaded, rows, wanted, own_pass=self._pass)
                return
            except NotShareable:  # raised by the first batch, or never
                pass
        yield from read_padded(self._loaded, rows, wanted)

    def _rows(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[Row]:
        """Tokenise; one row per prompt, or several if continuations of many tokens differ."""
        cut: dict[tuple[str, str], list[Tokens]] = {}
        rows: list[Row] = []
        for index, prompt in enumerate(prompts):
            if self._chat:
                rows += rows_of(index, *self._chat.label_tokens(prompt, continuations), self.mode)
                continue
            key = prompt_ending(prompt), line_end(prompt)
            if key not in cut:
                cut[key] = self._exclusive(*key, continuations)
            rows += rows_of(index, self._prompt_tokens(prompt.rstrip()), cut[key], self.mode)
        return rows

    def _exclusive(self, ending: str, end: str, continuations: Sequence[str]) -> list[Tokens]:
        """Tokens of continuations after a prompt's ending; with what ends a line of it, where one
        begins another as a text or in tokens.
        """
        tokens = self._cut(ending, continuations)
        if not (overlap(text.strip() for text in continuations) or overlap(tokens)):
            return tokens
        return told_apart(
            self._cut(ending, [text.rstrip() + end for text in continuations]), self._name
        )

    def _cut(self, ending: str, continuations: Sequence[str]) -> list[Tokens]:
        before = self.encode(ending.rstrip())
        wholes = [self.encode(ending + continuation) for continuation in continuations]
        for whole, continuation in zip(wholes, continuations, strict=True):
            if whole[: len(before)] != before or len(whole) == len(before):
                raise ModelError(
                    f"continuation {continuation!r} changes the tokens of the prompt before it or "
                    "adds none; expected one that starts with a blank, such as ' Yes'"
                )
        return [whole[len(before) :] for whole in wholes]

    def _prompt_tokens(self, prompt: str) -> Tokens:
        tokens = self.leading + self.encode(prompt)
        if not tokens:
            raise ModelError(
                "a prompt is empty and this model has no start token; expected at least one token"
            )
        return tokens

    def _check_rows(self, rows: Sequence[Tokens]) -> None:
        """Refuse rows that the model cannot read: longer than its context, or with tokens that it
        does not have.
        """
        unknown = sum(max(row) >= self._vocabulary for row in rows if row)
        if unknown:
            raise ModelError(
                f"model {self._name!r} does not have all tokens of its tokenizer (prompts: "
                f"{unknown}); expected another model"
            )
        longest = max(map(len, rows), default=0)
        if self.context is not None and longest > self.context:
            count = sum(len(row) > self.context for row in rows)
            raise TooLongError(
                f"a prompt has {longest} tokens, but model {self._name!r} reads at most "
                f"{self.context} ({count} distinct {'prompt is' if count == 1 else 'prompts are'} "
                "too long); expected fewer demonstrations or a model with a longer context"
            )


def _mode(dtype: Dtype, *, chat: bool) -> str:
    """As `ModelDescription.mode` says it."""
    if dtype == "float32":
        return "chat template" if chat else ""
    return f"{'chat template' if chat else 'completions'} in {dtype}"
