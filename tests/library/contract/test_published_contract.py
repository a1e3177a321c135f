"""A contract of a published set pins where it is, and its slices by digest; it is of public texts,
or is refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from dpicl.contract import TextContract
from dpicl.contract.load import edition, edition_names
from dpicl.ground.errors import DeclarationError

from ..examples import REMOVED, changed
from ..text_contracts import EDITIONS, TEXT_CONTRACTS, as_extraction, text_contract

DIGEST = "ab" * 32
FILE = {"file": "data/one.parquet", "sha256": DIGEST}
SLICE: dict[str, Any] = {"train": {**FILE, "file": "a.jsonl"}, "test": FILE, "bounds": 4}


def declared(changes: Mapping[str, Any]) -> Callable[[dict[str, Any]], object]:
    """A change: published, with one slice; then `changes` below `source`."""

    def change(content: dict[str, Any]) -> object:
        content["source"] |= {
            "published": {"hub": "org/name", "revision": "a" * 40, "train": FILE, "test": FILE},
            "slices": {"few": {**SLICE}},
        }
        of_source = {"train": REMOVED, "test": REMOVED, **changes}
        return changed(content, {f"source.{key}": value for key, value in of_source.items()})

    return change


ADDRESS = {"published.hub": None, "published.revision": None}
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "a branch": ({"published.revision": "main"}, "source.published.revision: "),
    "no commit": ({"published.revision": None}, "expected `hub` with `revision`, or `url`"),
    "an address beside the hub": (
        {"published.url": "https://example.org/set"},
        "expected `hub` with `revision`, or `url`",
    ),
    "an address without digests": (
        {
            **ADDRESS,
            "published.url": "https://example.org/set",
            "published.train": {"file": "a.csv"},
        },
        "expected the `sha256` of `train` and of `test`",
    ),
    "an address that is not encrypted": (
        {**ADDRESS, "published.url": "http://example.org/set"},
        "source.published.url: ",
    ),
    "a slice without a digest": (
        {"slices.few.train": {"file": "a.jsonl"}},
        "a slice is known by its digest",
    ),
    "slices of nothing": (
        {"published": REMOVED, "train": FILE, "test": FILE},
        "slices of no published set; expected `published` beside them",
    ),
    "files too": (
        {"train": FILE},
        "expected `train` with `test` or `queries`, `deliveries`, `published`, or `bundled`",
    ),
    "two slices in one file": (
        {"slices.other": SLICE},
        "expected a file and a name of its own for every slice",
    ),
    "other labels": (
        {"slices.few.bounds": {"good": 4}},
        "has bounds of other labels; expected one for every label of the task, or one number",
    ),
    "fewer rows than a sample": (
        {"slices.few.bounds": 3},
        "source.slices.few.bounds: is 3, fewer than subsets x examples = 2 x 2 = 4",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_one_sentence(case: str) -> None:
    changes, expected = BROKEN[case]
    refused(declared(changes), expected)


def refused(change: Callable[[dict[str, Any]], object], expected: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        text_contract(change)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_private_texts_are_not_published() -> None:
    def private(content: dict[str, Any]) -> None:
        declared({})(content)
        content["privacy"]["budget"] = {"epsilon": 1}

    refused(
        private,
        "source.published: has no meaning for texts with something at stake; expected "
        "`benchmark: true`, or `train`",
    )


def test_answers_that_are_no_labels_have_one_bound() -> None:
    def labels_of_answers(content: dict[str, Any]) -> None:
        as_extraction(content)
        declared({"slices.few.bounds": {"good": 4}})(content)

    refused(
        labels_of_answers,
        "source.slices.few.bounds: has bounds of labels; expected one number, since answers are "
        "no labels",
    )


def test_an_address_needs_no_hub() -> None:
    contract = text_contract(declared({**ADDRESS, "published.url": "https://example.org/set"}))
    train = edition(contract, "published").source.train
    assert train.file.startswith("published/mail/") and train.sha256 == DIGEST


@pytest.mark.parametrize("contract", EDITIONS.values(), ids=EDITIONS)
def test_every_shipped_edition_is_pinned_and_its_deltas_fit_its_rows(
    contract: TextContract,
) -> None:
    assert contract.source.train and contract.source.test
    bounds = [rows for label, rows in contract.row_bounds.items() if label != "ABBR"]
    assert contract.generation is None or contract.generation.delta * min(bounds) <= 1
    assert contract.ensemble.delta * sum(bounds) < 1
    published = contract.edition_of.stated.source.published
    assert (published.revision or published.url) and published.test.rows
    assert sum(TEXT_CONTRACTS[contract.name].row_bounds.values()) <= published.train.rows


def test_no_edition_but_of_published_sets() -> None:
    names = {name for name, contract in TEXT_CONTRACTS.items() if edition_names(contract)}
    assert " ".join(sorted(names)) == "agnews dbpedia mit_director mit_genre samsum sst2 trec"
