"""Claims about reading votes with a local model, checked against one plain forward pass for every voter."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
)

from dpicl.errors import ModelError
from dpicl.lm import growing_rows
from dpicl.lm.batching import Tokens
from dpicl.lm.tiny import build_tiny_model
from dpicl.lm.transformers_backend import TransformersScorer
from dpicl.lm.voting import Ballot, VoteRule, Votes, VotingSession

torch.set_num_threads(1)  # small batches on a busy machine

INSTRUCTION = "Given a label of news type, generate the chosen type of news accordingly.\n\n"
EXAMPLES = [f"News Type: World\nText: Number {line} of {line * line} was seen{' again' * (line % 5)}.\n\n" for line in range(12)]
HEADER = "News Type: World\nText:"
UNITS = 1 << 20
RULE = VoteRule("probability", 30, UNITS)
RULES = (RULE, VoteRule("relative", None, UNITS), VoteRule("logit", 30, UNITS, clip=5.0))
SMALL: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "initializer_range": 0.3,
}  # fmt: skip
MODELS: dict[str, Callable[[int], PreTrainedConfig]] = {
    "grouped queries": lambda vocabulary: LlamaConfig(**SMALL, num_key_value_heads=2, vocab_size=vocabulary),
    "absolute positions": lambda vocabulary: GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=vocabulary + 7, n_positions=400, initializer_range=0.3
    ),
    "parallel layers": lambda vocabulary: GPTNeoXConfig(**SMALL, vocab_size=vocabulary, max_position_embeddings=400),
    "a window": lambda vocabulary: MistralConfig(**SMALL, num_key_value_heads=2, vocab_size=vocabulary, sliding_window=8),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models"), [INSTRUCTION, HEADER, *EXAMPLES])


@pytest.fixture(scope="module", params=["tiny", *MODELS])
def home(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one model after another."""
    if request.param == "tiny":
        return folder
    return made(folder, tmp_path_factory.mktemp("other"), MODELS[request.param])


@pytest.fixture(scope="module")
def writer(home: Path) -> TransformersScorer:
    """One model after another."""
    return opened(home)


@pytest.fixture(scope="module")
def tiny(folder: Path) -> TransformersScorer:
    return opened(folder)


def made(folder: Path, home: Path, config: Callable[[int], PreTrainedConfig]) -> Path:
    """A model of random weights with the tiny model's tokenizer."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    AutoModelForCausalLM.from_config(config(len(tokenizer))).save_pretrained(home)
    tokenizer.save_pretrained(home)
    return home


def opened(home: Path, **options: Any) -> TransformersScorer:
    return TransformersScorer(str(home), device="cpu", **{"token_budget": 300, **options})


def prompt(writer: TransformersScorer, *examples: str) -> Tokens:
    return writer.leading + writer.encode(INSTRUCTION + "".join(examples) + HEADER)


def ballots_of(writer: TransformersScorer) -> list[Ballot]:
    """Three texts: many voters, a repeated one and one without examples, and none."""
    voters = [prompt(writer, *EXAMPLES[line : line + 2]) for line in range(0, 12, 2)]
    public = prompt(writer)
    return [
        Ballot(public, tuple(voters), ()),
        Ballot(public, (voters[0], public, voters[3], voters[0]), writer.encode(" It was")),
        Ballot(public, (), writer.encode(" Number")),
    ]


@lru_cache
def loaded(home: Path) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(home), AutoModelForCausalLM.from_pretrained(home).eval()


def plain(home: Path, ballot: Ballot, rule: VoteRule) -> tuple[list[int], np.ndarray]:
    """Candidates and sums as fractions of units: a loop over the subsets."""
    tokenizer, model = loaded(home)
    with torch.inference_mode():
        public, *voters = (
            model(torch.tensor([row + ballot.written])).logits[0, -1].double().numpy() for row in (ballot.public, *ballot.voters)
        )
    candidates = np.argsort(-public[: len(tokenizer)], kind="stable")[: rule.candidates]
    sums = np.zeros(len(candidates))
    for logits in voters or [public]:
        told = logits[candidates] - logits[candidates].max()
        sums += {
            "probability": np.exp(told) / np.exp(told).sum(),
            "relative": np.exp(told),
            "logit": 1 + told.clip(-(rule.clip or 1), 0) / (rule.clip or 1),
        }[rule.kind]
    return candidates.tolist(), sums


def assert_alike(one: Sequence[Votes | None], other: Sequence[Votes | None], units: float = 1e-4 * UNITS) -> None:
    """The same but for what rounding does."""
    for mine, yours in zip(one, other, strict=True):
        assert (mine is None) == (yours is None)
        if mine is not None and yours is not None:
            assert dict(zip(mine.candidates.tolist(), mine.sums, strict=True)) == pytest.approx(
                dict(zip(yours.candidates.tolist(), yours.sums, strict=True)), abs=units
            )


def equal(one: Sequence[Votes], other: Sequence[Votes]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(np.array_equal(mine.candidates, yours.candidates) and np.array_equal(mine.sums, yours.sums) for mine, yours in pairs)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_votes_equal_a_plain_loop_over_the_subsets(home: Path, writer: TransformersScorer, rule: VoteRule) -> None:
    ballots = ballots_of(writer)
    for ballot, votes in zip(ballots, writer.vote(ballots, rule), strict=True):
        candidates, sums = plain(home, ballot, rule)
        assert votes.candidates.dtype == votes.sums.dtype == np.int64
        assert sorted(votes.candidates.tolist()) == sorted(candidates)
        place = {token: line for line, token in enumerate(votes.candidates.tolist())}
        assert votes.sums[[place[token] for token in candidates]] / UNITS == pytest.approx(sums, abs=1e-4)


def test_a_session_gives_what_fresh_reading_gives(writer: TransformersScorer) -> None:
    """Texts of different lengths that end at different times, and grow alike, unlike and not at all."""
    ballots = ballots_of(writer)
    reading = writer.session(ballots, RULE)
    steps: list[list[Tokens | None]] = [[(), (), ()]]
    steps += [[(token,), (token + 1,), (token + 2,)] for token in (40, 50, 60)]
    steps += [[(41, 42), (43,), (44,)], [(), (45,), (46, 47)], [(48,), None, (49,)], [(50,), None, None], [None, None, None]]
    for written in steps:
        ballots = [replace(ballot, written=ballot.written + (new or ())) for ballot, new in zip(ballots, written, strict=True)]
        open_ones = [ballot for ballot, new in zip(ballots, written, strict=True) if new is not None]
        fresh = iter(writer.vote(open_ones, RULE))
        assert_alike(reading.vote(written), [None if new is None else next(fresh) for new in written])


@contextmanager
def tokens_read(writer: TransformersScorer) -> Iterator[list[int]]:
    """Grows by the number of tokens of every forward pass."""
    read: list[int] = []
    hook = writer._model.register_forward_pre_hook(lambda _, __, inputs: read.append(inputs["input_ids"].numel()), with_kwargs=True)
    yield read
    hook.remove()


def test_a_session_reads_every_prompt_once_and_then_a_token_of_each_row(writer: TransformersScorer) -> None:
    reading = writer.session(ballots_of(writer), RULE)
    reading.vote([(), (), ()])
    rows = [6 + 3 + 3, 6 + 3 + 3, 6 + 2]  # two of the second text's voters are equal; its public prompt is read too
    for count, written in zip(rows, [[(40,), (41,), (42,)], [(43,), (44,), (45,)], [(46,), None, (47,)]], strict=True):
        with tokens_read(writer) as read:
            reading.vote(written)
        assert sum(read) == count


def test_fresh_voters_that_are_equal_are_read_once(tiny: TransformersScorer) -> None:
    ballot = Ballot(prompt(tiny), (prompt(tiny, EXAMPLES[0]),), ())
    with tokens_read(tiny) as read:
        once = tiny.vote([ballot], RULE)
        tokens = sum(read)
        often = tiny.vote([replace(ballot, voters=ballot.voters * 5)] * 3, RULE)
    assert sum(read) == 2 * tokens
    assert all(np.array_equal(votes.sums, 5 * once[0].sums) for votes in often)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_texts_and_voters_changes_no_bit(tiny: TransformersScorer, seed: int) -> None:
    writer, rng = tiny, np.random.default_rng(seed)
    ballots = ballots_of(writer)
    order = rng.permutation(len(ballots))
    moved = [replace(ballots[line], voters=tuple(rng.permutation(np.array(ballots[line].voters, dtype=object)))) for line in order]
    expected = writer.vote(ballots, RULE)
    assert equal(writer.vote(moved, RULE), [expected[line] for line in order])
    at_once = writer.session(ballots, RULE).vote([()] * 3), writer.session(moved, RULE).vote([()] * 3)
    assert_alike([at_once[0][line] for line in order], at_once[1], units=8)


def test_candidates_are_those_of_the_public_prompt_whoever_votes(tiny: TransformersScorer) -> None:
    writer = tiny
    few, many, alone = ballots_of(writer)
    ballots = [replace(few, written=()), replace(many, written=()), replace(alone, written=())]
    told = [*writer.vote(ballots, RULE), *writer.vote(ballots[:1], RULE), *writer.session(ballots, RULE).vote([()] * 3)]
    assert all(votes is not None and np.array_equal(votes.candidates, told[0].candidates) for votes in told)
    assert told[0].sums[np.argmax(told[2].sums)] != told[0].sums.max()  # though voters like others best


def test_a_voter_moves_the_votes_of_others_by_rounding_alone(tiny: TransformersScorer) -> None:
    ballot = ballots_of(tiny)[0]
    for parted in (1, 3):
        whole, one, rest = tiny.vote(
            [replace(ballot, voters=some) for some in (ballot.voters, ballot.voters[:parted], ballot.voters[parted:])], RULE
        )
        apart = [tiny.vote([replace(ballot, voters=some)], RULE)[0] for some in (ballot.voters[:parted], ballot.voters[parted:])]
        assert np.array_equal(whole.sums, one.sums + rest.sums)
        assert np.abs(whole.sums - apart[0].sums - apart[1].sums).max() <= 8


def test_no_texts_have_no_votes(tiny: TransformersScorer) -> None:
    assert tiny.vote([], RULE) == [] == tiny.session([], RULE).vote([])


class Tight:
    """A model on a device whose memory holds so many tokens of caches and inputs."""

    def __init__(self, model: Any, kept: int) -> None:
        self.model, self.kept = model, kept
        self.config, self.dtype = model.config, model.dtype
        self.refused = 0
        self.held: list[int] = []
        """Of every forward pass with a cache."""
        self.anew = 0
        """Forward passes without one."""

    def __call__(self, **inputs: Any) -> Any:
        cache = inputs.get("past_key_values")
        if cache is None:
            self.anew += 1
            return self.model(**inputs)
        held = inputs["input_ids"].numel() + cache.get_seq_length() * len(inputs["input_ids"])
        if held > self.kept:
            self.refused += 1
            raise torch.OutOfMemoryError("CUDA out of memory.")
        self.held.append(held)
        return self.model(**inputs)


def follow(reading: VotingSession, steps: int = 4) -> list[list[Votes | None]]:
    return [reading.vote([(), (), ()]), *(reading.vote([(40 + step,), (50 + step,), (60 + step,)]) for step in range(steps))]


def with_memory(writer: TransformersScorer, kept: int) -> tuple[Tight, list[list[Votes | None]]]:
    model = writer._model
    tight = writer._model = Tight(model, kept)
    told = follow(writer.session(ballots_of(writer), RULE))
    writer._model = model
    return tight, told


def test_a_session_without_memory_for_what_it_read_reads_anew(tiny: TransformersScorer) -> None:
    plenty, expected = with_memory(tiny, 1 << 40)
    whole = max(plenty.held)
    probe = plenty.held[1]
    for kept, refusals, anew in (
        (probe - 1, 1, True),  # nothing can be kept
        (probe, 2, True),  # nor the shortest row
        (whole - 1, 1, True),  # at the last step it is too much
        (whole * 2 // 3, 1, False),  # in smaller pieces everything fits
    ):
        tight, told = with_memory(tiny, kept)
        assert tight.refused >= refusals and (tight.anew > plenty.anew) == anew, (kept, tight.refused, tight.anew)
        for found, right in zip(told, expected, strict=True):
            assert_alike(found, right)


def test_a_session_keeps_what_fits_a_cpus_memory_and_reads_the_rest_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = opened(folder, token_budget=100)
    ballots = ballots_of(writer)
    expected = follow(writer.session(ballots, RULE), 3)
    monkeypatch.setattr(growing_rows, "CPU_BYTES", 700 * 1024)
    reading = writer.session(ballots, RULE)
    for found, told in zip(follow(reading, 3), expected, strict=True):
        assert_alike(found, told)
    with tokens_read(writer) as read:
        reading.vote([(1,), (2,), (3,)])
    whole = sum(len(voter) for ballot in ballots for voter in set(ballot.voters))
    assert 12 < sum(read) < whole


def test_a_voter_that_is_longer_than_the_context_votes_for_nobody(folder: Path, tmp_path: Path) -> None:
    writer = opened(made(folder, tmp_path, lambda size: GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=size, n_positions=140)))
    assert writer.context == 140
    public, short, long = prompt(writer), prompt(writer, EXAMPLES[0]), prompt(writer, *EXAMPLES[:9])
    assert len(short) < 136 and len(long) > 140
    both, one = Ballot(public, (long, short), ()), Ballot(public, (short,), ())
    assert equal(writer.vote([both], RULE), writer.vote([one], RULE))
    none = writer.vote([Ballot(public, (long,), ())], RULE)[0]
    assert len(none.candidates) == 30 and not none.sums.any()


def test_a_voter_that_grows_beyond_the_context_stops_voting(folder: Path, tmp_path: Path) -> None:
    """Positions beyond the context are an error of the model: whoever reads them is noticed."""
    writer = opened(made(folder, tmp_path, lambda size: GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=size, n_positions=140)))
    public, examples = prompt(writer), [prompt(writer, EXAMPLES[0]), prompt(writer, *EXAMPLES[:2])]
    voters = tuple((voter * 4)[: 138 - line] for line, voter in enumerate(examples))
    ballot, reading = Ballot(public, voters, ()), writer.session([Ballot(public, voters, ())], RULE)
    shares = []
    for written in [(), (5,), (6,), (7,), (8,)]:
        ballot = replace(ballot, written=ballot.written + written)
        votes = reading.vote([written])
        assert_alike(votes, writer.vote([ballot], RULE))
        assert votes[0] is not None
        shares.append(round(votes[0].sums.sum() / UNITS, 2))
    assert shares == [2, 2, 2, 1, 0]


@pytest.mark.parametrize("way", ["vote", "session"])
def test_a_public_prompt_that_is_longer_than_the_context_is_refused(tiny: TransformersScorer, folder: Path, way: str) -> None:
    writer = tiny
    long = Ballot((5,) * 8000, ((6,),), (7,) * 193)
    with pytest.raises(ModelError) as error:
        writer.vote([long], RULE) if way == "vote" else writer.session([long], RULE).vote([()])
    assert str(error.value) == (
        f"a public prompt with what was written after it has 8193 tokens, but model {folder.name!r} reads at least 1 and at most 8192 "
        "(texts: 1); expected fewer tokens or a model with a longer context"
    )


@pytest.fixture
def spoilt(folder: Path, tmp_path: Path) -> TransformersScorer:
    """The tiny model, whose numbers are not finite after a "~"."""
    home = Path(shutil.copytree(folder, tmp_path / "copy"))
    weights = load_file(home / "model.safetensors")
    weights["model.embed_tokens.weight"][AutoTokenizer.from_pretrained(home)("~", add_special_tokens=False).input_ids[0]] = float("nan")
    weights.setdefault("lm_head.weight", load_file(folder / "model.safetensors").get("lm_head.weight"))
    save_file(weights, home / "model.safetensors", metadata={"format": "pt"})
    return opened(home)


def test_a_voter_after_whom_numbers_are_not_finite_votes_for_nobody(spoilt: TransformersScorer) -> None:
    ballot = ballots_of(spoilt)[0]
    sick = prompt(spoilt, EXAMPLES[0], "News Type: World\nText: Oh~\n\n")
    alone = spoilt.vote([ballot], RULE)
    assert alone[0].sums.sum() > 5.9 * UNITS
    together = replace(ballot, voters=(*ballot.voters, sick))
    assert_alike(spoilt.vote([together], RULE), alone)
    reading = spoilt.session([together], RULE)
    assert_alike(reading.vote([()]), alone)
    assert_alike(reading.vote([(9,)]), spoilt.vote([replace(ballot, written=(9,))], RULE))


def test_a_public_prompt_after_which_numbers_are_not_finite_is_an_error(spoilt: TransformersScorer) -> None:
    with pytest.raises(ModelError, match="answered with numbers that are not finite"):
        spoilt.vote([replace(ballots_of(spoilt)[0], written=spoilt.encode("~"))], RULE)


def test_texts_end_with_the_models_end_a_line_break_or_a_mark(tiny: TransformersScorer, tmp_path: Path) -> None:
    home = build_tiny_model(tmp_path, ["A text. END\n\nA text. END\n\n" * 40])
    writer = opened(home)
    tokenizer = AutoTokenizer.from_pretrained(home)
    known = range(len(tokenizer))
    mark = writer.encode(" END")
    assert len(mark) == 1 and len(writer.encode("\n\n")) == 1
    assert writer.ends == {tokenizer.eos_token_id, *mark, *(token for token in known if "\n" in tokenizer.decode([token]))}
    assert writer.encode("\n")[0] in writer.ends and writer.encode("\n\n")[0] in writer.ends and writer.encode(" A")[0] not in writer.ends
    assert len(tiny.encode(" END")) > 1 and not tiny.ends & set(tiny.encode(" END"))


def test_a_tokenizer_without_an_end_will_do(folder: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(folder, tmp_path / "copy"))
    for name in ("config.json", "tokenizer_config.json"):
        settings = json.loads((home / name).read_text())
        (home / name).write_text(json.dumps({key: value for key, value in settings.items() if not key.startswith("eos_token")}))
    writer = opened(home)
    assert writer.ends == {*writer.encode("\n"), *writer.encode("\n\n")}


def test_a_text_survives_the_writer(tiny: TransformersScorer) -> None:
    text = " Zürich: 日本, 5 % – said so."
    assert tiny.decode(tiny.encode(text)) == text
    assert tiny.decode((*tiny.leading, *tiny.encode(text))) == text
