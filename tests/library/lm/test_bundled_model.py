"""The model in the box: small enough to ship, told apart from a general one, and better than chance
on rows it has never seen.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell
from dpicl.data.reading.source import load_source
from dpicl.data.reading.split import split_table
from dpicl.ground.types import SplitTable
from dpicl.methods.tabular_answers import truth_of
from dpicl.models.kinds.local import BUNDLED
from dpicl.models.opening import open_scorer
from dpicl.models.requests import CONTINUATIONS, Scorer
from dpicl.models.spec import ModelSpec
from dpicl.release.pipelines import MethodName
from lab.benchmarks.model import other_answers, prompts_of, reversed_rows
from lab.training.export import ALL_MIB, NOTE, SHARD_MIB
from lab.training.numbers import NUMBERS, number_normalizer
from lab.training.tokenizer import load_tokenizer

SPEC = ModelSpec(name="bundled", kind="bundled")


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    return open_scorer(SPEC, models_folder=tmp_path_factory.mktemp("models"), corpus=())


@pytest.fixture(scope="module")
def patients(
    contracts: dict[str, Contract], tmp_path_factory: pytest.TempPathFactory
) -> SplitTable:
    contract = contracts["breast_cancer"]
    return split_table(
        load_source(contract, data_folder=None, cache_folder=tmp_path_factory.mktemp("cache")),
        contract,
    )


def odds(scorer: Scorer, texts: list[str]) -> np.ndarray:
    said = scorer.score(texts, CONTINUATIONS)
    return np.asarray(said[:, 1] - said[:, 0])


def test_its_files_fit_a_repository_and_hold_no_code() -> None:
    weights = [path.stat().st_size for path in BUNDLED.glob("*.safetensors")]
    assert 0 < max(weights) <= SHARD_MIB * 2**20
    assert sum(weights) <= ALL_MIB * 2**20
    assert {path.suffix for path in BUNDLED.iterdir()} == {".json", ".md", ".safetensors"}


def test_it_says_what_it_is(scorer: Scorer) -> None:
    assert scorer.description.trained
    assert scorer.description.note == NOTE
    assert len(scorer.description.digest) == 64
    assert SPEC.fingerprint(()).startswith(scorer.description.digest)


def test_it_reads_numbers_as_its_training_writes_them() -> None:
    shipped = load_tokenizer(BUNDLED)
    tokens = shipped.encode("12.92, 0.05 or 1078.2. 0", add_special_tokens=False).tokens
    assert shipped.normalizer.__getstate__() == number_normalizer().__getstate__()
    assert [shipped.token_to_id(number) for number in NUMBERS] == list(
        range(shipped.get_vocab_size() - len(NUMBERS), shipped.get_vocab_size())
    )
    assert [round(10 ** NUMBERS[token], 2) for token in tokens if token in NUMBERS] == [
        12,
        0.05,
        1000,
        0,
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["ldp_tabicl", "gdp_tabicl"])
def test_it_tells_tumours_apart_by_eight_rows_and_goes_by_their_answers(
    method: MethodName, scorer: Scorer, patients: SplitTable, contracts: dict[str, Contract]
) -> None:
    """Rows of reports with thresholds, and averages of numbers."""
    contract, asked = contracts["breast_cancer"], slice(0, 40)
    texts = prompts_of(method, patients, contract, 0)[Cell("icl", math.inf, 8)][asked]
    truth = truth_of(patients.queries, contract)[asked]
    area, other_way = (
        roc_auc_score(truth, odds(scorer, told))
        for told in (texts, [reversed_rows(text) for text in texts])
    )
    assert area > 0.6
    assert other_way > 0.6
    assert roc_auc_score(truth, odds(scorer, [other_answers(text) for text in texts])) < 0.4
