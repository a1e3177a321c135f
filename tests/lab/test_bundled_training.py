"""Training of the bundled model: it learns, goes on where it was killed, and ships a model that the
product loads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from dpicl.ground.errors import ModelError, ParameterError
from dpicl.ground.randomness import stream
from dpicl.models.local.transformers_backend import TransformersScorer
from lab.training import __main__ as command
from lab.training import batches
from lab.training import export as exporting
from lab.training.batches import Job, make_step
from lab.training.checkpoint import FILE, RECORD, State, read_state
from lab.training.curriculum import LEVELS
from lab.training.encoding import batch_of, encode_task, prompt_of
from lab.training.export import ALL_MIB, CHANGES, SHARD_MIB, changes_of, export
from lab.training.held_out import Figure, scores
from lab.training.model import loss_of, marks_of, new_model
from lab.training.presets import PRESETS, preset_of
from lab.training.tasks import make_task
from lab.training.tokenizer import TOKENIZER_FILE, load_tokenizer
from lab.training.trainer import Limits, begin, open_learner, train

CPU = torch.device("cpu")
FIGURES = [Figure("local", 6, 0.7, 0.8, 0.75)]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of a small model wait for each other where other work runs beside it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    begin(preset_of("smoke"), folder, seed=3)
    return folder


def copied(begun: Path, folder: Path) -> Path:
    folder.mkdir()
    for path in begun.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def go_on(folder: Path, steps: int) -> State:
    return train(folder, CPU, Limits(steps=steps), lambda *_: None)


@pytest.mark.exhaustive
def test_a_resumed_training_ends_with_the_same_weights(begun: Path, tmp_path: Path) -> None:
    whole, parted = copied(begun, tmp_path / "whole"), copied(begun, tmp_path / "parted")
    ended = go_on(whole, 4)
    go_on(parted, 2)
    again = go_on(parted, 4)
    assert (ended.step, ended.tokens, ended.progress) == (4, again.tokens, again.progress)
    assert again.step == 4
    first, second = load_file(whole / FILE), load_file(parted / FILE)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.exhaustive
def test_a_cooled_down_training_is_resumed_alike_and_comes_to_rest(
    begun: Path, tmp_path: Path
) -> None:
    whole, parted, hot = (copied(begun, tmp_path / name) for name in ("whole", "parted", "hot"))
    cooled = Limits(steps=6, cool_down=4)
    for limits, folder in (
        (cooled, whole),
        (replace(cooled, minutes=0.0), parted),
        (cooled, parted),
        (Limits(steps=6), hot),
    ):
        train(folder, CPU, limits, lambda *_: None)
    ended, again, other = (load_file(folder / FILE) for folder in (whole, parted, hot))
    assert all(torch.equal(ended[name], again[name]) for name in ended)
    assert not torch.equal(ended["weight.lm_head.weight"], other["weight.lm_head.weight"])
    assert [cooled.warmth(step) for step in (0, 2, 3, 5, 6, 9)] == [1.0, 1.0, 0.75, 0.25, 0.0, 0.0]
    assert Limits(steps=6).warmth(5) == 1.0


@pytest.mark.parametrize(
    "arguments, phrase",
    [
        (["--cool-down", "5"], "--cool-down needs --until"),
        (["--steps", "9", "--cool-down", "5"], "--cool-down needs --until"),
        (["--until", "9", "--cool-down", "-1"], "a number of steps, 0 or more"),
        (["--until", "9", "--steps", "9"], "not allowed with argument"),
    ],
)
def test_a_cool_down_without_an_end_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    phrase: str,
) -> None:
    out = tmp_path / "training"
    monkeypatch.setattr(
        "sys.argv", ["lab.training", "--preset", "smoke", "--out", str(out), *arguments]
    )
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert phrase in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.exhaustive
def test_the_command_goes_on_exports_and_flushes_denormals(
    begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = copied(begun, tmp_path / "training")
    monkeypatch.setattr(
        "sys.argv",
        ["lab.training", "--preset", "smoke", "--out", str(out), "--resume", "--until", "2"],
    )
    try:
        command.main()
        denormal = float(torch.tensor(2e-38) * 1e-3)
    finally:
        torch.set_flush_denormal(False)
    assert denormal == 0.0 < float(torch.tensor(2e-38) * 1e-3)
    assert read_state(out).step == 2
    told = json.loads((out / "model" / RECORD).read_text("utf-8"))
    assert [figure["tasks"] for figure in told["held_out"]] == [
        preset_of("smoke").held_out_tasks
    ] * 3


def test_of_the_longest_tasks_only_some_are_learned_from(begun: Path, monkeypatch) -> None:
    job = Job(
        seed=3,
        step=0,
        reached=len(LEVELS) - 1,
        step_tokens=30_000,
        batch_tokens=4096,
        tokenizer=begun / TOKENIZER_FILE,
    )
    monkeypatch.setattr(batches, "_LONG_KEPT", 1.0)
    longest = max(int(batch.lengths.max()) for batch in make_step(job).batches)
    monkeypatch.setattr(batches, "_LONG_KEPT", 0.0)
    made = make_step(job)
    assert longest > 1536 >= max(int(batch.lengths.max()) for batch in made.batches)
    assert sum(int(batch.lengths.sum()) for batch in made.batches) >= job.step_tokens


def test_a_killed_save_leaves_the_old_checkpoint(begun: Path, tmp_path: Path) -> None:
    folder = copied(begun, tmp_path / "killed")
    (folder / f"{FILE}.part").write_bytes(b"half a file")
    assert read_state(folder).step == 0
    assert go_on(folder, 2).step == 2
    with pytest.raises(ModelError, match="begun"):
        read_state(tmp_path)


def test_numbers_begin_the_more_alike_the_nearer_they_are(begun: Path) -> None:
    tokenizer = load_tokenizer(begun)
    model = new_model(preset_of("smoke"), tokenizer, seed=0)
    scale = marks_of(tokenizer).numbers
    rows = model.model.embed_tokens.weight[
        list(scale.tokens), : model.config.hidden_size // 3
    ].detach()
    gap = torch.tensor(scale.places)[:, None] - torch.tensor(scale.places)
    distance = torch.cdist(rows, rows)
    near, middle, far = (
        float(distance[(gap > low) & (gap < high)].mean())
        for low, high in ((0, 0.05), (0.15, 0.2), (1, 2))
    )
    assert near < 0.6 * middle < 0.6 * far


@pytest.mark.exhaustive
def test_the_loss_falls_on_tables_of_one_column(begun: Path) -> None:
    tokenizer, rng = load_tokenizer(begun), stream(0, "test", "bundled", "loss").generator()
    model = new_model(preset_of("smoke"), tokenizer, seed=0)
    batch = batch_of(
        [encode_task(tokenizer, make_task(rng, LEVELS[0], shots=4, kind="local")) for _ in range(4)]
    )
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(15):
        optimiser.zero_grad()
        loss, right = loss_of(model, batch, CPU, generator)
        (loss / len(batch.targets)).backward()
        optimiser.step()
        losses.append(float(loss.detach()) / len(batch.targets))
        assert right.shape == batch.targets.shape and not right[batch.others < 0].any()
    assert losses[-1] < 0.5 * losses[0]


def test_the_exported_folder_scores_as_the_trained_model(begun: Path, tmp_path: Path) -> None:
    learner, state = open_learner(begun, CPU)
    rng = stream(0, "test", "bundled", "export").generator()
    tasks = [make_task(rng, LEVELS[1], shots=2, kind="local") for _ in range(3)]
    home = export(learner.model, begun, tmp_path / "model", state, FIGURES, CPU)
    rounded, _ = open_learner(begun, CPU)  # its rotary speeds are not
    rounded.model.load_state_dict(
        {name: weight.half() for name, weight in rounded.model.state_dict().items()}
    )
    expected = scores(rounded.model, begun, tasks, CPU)
    scorer = TransformersScorer(str(home), device="cpu")
    said = scorer.score([prompt_of(task) for task in tasks], (" No", " Yes"))
    assert scorer.description.trained
    np.testing.assert_allclose(said[:, 1] - said[:, 0], expected, atol=2e-3)
    assert '"tokens": 0' in (home / RECORD).read_text("utf-8")
    assert "| local, 6 tasks | 0.700 | 0.800 | 0.750 |" in (home / "README.md").read_text("utf-8")


@pytest.mark.exhaustive
def test_shipped_weights_are_gone_on_with_by_new_tasks(begun: Path, tmp_path: Path) -> None:
    folder = copied(begun, tmp_path / "first")
    ended = go_on(folder, 2)
    (folder / CHANGES).write_text("longer steps.\n")
    learner, _ = open_learner(folder, CPU)
    shipped = export(learner.model, folder, tmp_path / "model", ended, FIGURES, CPU)
    begin(preset_of("smoke"), tmp_path / "second", seed=9, weights=shipped)
    began = read_state(tmp_path / "second")
    assert changes_of(tmp_path / "second") == ["longer steps."]
    assert "longer steps." in (shipped / "README.md").read_text("utf-8")
    assert (began.step, began.tokens, began.seed, began.warmed_from) == (
        2,
        ended.tokens,
        ended.seed,
        2,
    )
    assert go_on(tmp_path / "second", 4).tokens > ended.tokens
    with pytest.raises(ParameterError, match="smoke, which the weights are of"):
        begin(preset_of("cpu"), tmp_path / "third", seed=9, weights=shipped)
    (shipped / RECORD).unlink()
    with pytest.raises(ModelError, match=f"holds no {RECORD}"):
        begin(preset_of("smoke"), tmp_path / "fourth", seed=9, weights=shipped)


def test_weights_too_large_for_a_repository_are_refused(
    begun: Path, tmp_path: Path, monkeypatch
) -> None:
    learner, state = open_learner(begun, CPU)
    monkeypatch.setattr(exporting, "ALL_MIB", 0)
    with pytest.raises(ModelError, match="expected 0 and 16 at most"):
        export(learner.model, begun, tmp_path / "model", state, FIGURES, CPU)
    assert not (tmp_path / "model").exists()


@pytest.mark.quick("smoke")
@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_can_be_begun_and_fits_a_repository(begun: Path, name: str) -> None:
    sizes = [
        weight.numel()
        for weight in new_model(PRESETS[name], load_tokenizer(begun), seed=0).parameters()
    ]
    assert 2 * sum(sizes) < ALL_MIB * 2**20 and 2 * max(sizes) < SHARD_MIB * 2**20
    with pytest.raises(ParameterError, match="preset"):
        preset_of("huge")
