"""A contract of a published set pins where it is, and its slices by digest; it is of public texts,
or is refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpicl.contract import TextContract
from dpicl.contract.load import edition, edition_names
from dpicl.ground.errors import DeclarationError

from ..text_contracts import EDITIONS, TEXT_CONTRACTS, as_extraction, text_contract

DIGEST = "ab" * 32
FILE = {"file": "data/one.parquet", "sha256": DIGEST}
SLICE: dict[str, Any] = {
    "train": {**FILE, "file": "a.jsonl"},
    "test": {**FILE, "file": "b.jsonl"},
    "bounds": 4,
}


def declared(**changes: Any) -> Callable[[dict[str, Any]], None]:
    """A change: published, with one slice; `changes` are of the published set, or of the slice."""

    def change(content: dict[str, Any]) -> None:
        source = content["source"]
        del source["train"], source["test"]
        published = {
            "hub": "org/name",
            "revision": "a" * 40,
            "train": dict(FILE),
            "test": dict(FILE),
        }
        source["published"] = {
            **published,
            **{key: value for key, value in changes.items() if key != "bounds"},
        }
        source["slices"] = {
            "few": {**SLICE, **{key: value for key, value in changes.items() if key == "bounds"}}
        }

    return change


def private(content: dict[str, Any]) -> None:
    declared()(content)
    content["privacy"]["budget"] = {"epsilon": 1}


def unpinned(content: dict[str, Any]) -> None:
    declared()(content)
    content["source"]["slices"]["few"]["train"] = {"file": "a.jsonl"}


def alone(content: dict[str, Any]) -> None:
    content["source"]["slices"] = {"few": SLICE}


def both(content: dict[str, Any]) -> None:
    train = content["source"]["train"]
    declared()(content)
    content["source"]["train"] = train


def twice(content: dict[str, Any]) -> None:
    declared()(content)
    content["source"]["slices"]["other"] = SLICE


def labels_of_answers(content: dict[str, Any]) -> None:
    as_extraction(content)
    declared(bounds={"good": 4})(content)


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "private texts": (
        private,
        (
            "source.published: has no meaning for texts with something at stake; expected "
            "`benchmark: "
            "true`, or `train`"
        ),
    ),
    "a branch": (declared(revision="main"), "source.published.revision: "),
    "no commit": (declared(revision=None), "expected `hub` with `revision`, or `url`"),
    "an address beside the hub": (
        declared(url="https://example.org/set"),
        "expected `hub` with `revision`, or `url`",
    ),
    "an address without digests": (
        declared(hub=None, revision=None, url="https://example.org/set", train={"file": "a.csv"}),
        "expected the `sha256` of `train` and of `test`",
    ),
    "an address that is not encrypted": (
        declared(hub=None, revision=None, url="http://example.org/set"),
        "source.published.url: ",
    ),
    "a slice without a digest": (unpinned, "a slice is known by its digest"),
    "slices of nothing": (alone, "slices of no published set; expected `published` beside them"),
    "files too": (
        both,
        "expected `train` with `test` or `queries`, `deliveries`, `published`, or `bundled`",
    ),
    "two slices in one file": (twice, "expected a file and a name of its own for every slice"),
    "other labels": (
        declared(bounds={"good": 4}),
        (
            "source.slices.few.bounds: has bounds of other labels; expected one for every label of "
            "the task, or one number for all"
        ),
    ),
    "labels of answers": (
        labels_of_answers,
        (
            "source.slices.few.bounds: has bounds of labels; expected one number, since answers "
            "are "
            "no labels"
        ),
    ),
    "fewer rows than a sample": (
        declared(bounds=3),
        "source.slices.few.bounds: is 3, fewer than subsets x examples = 2 x 2 = 4",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_one_sentence(case: str) -> None:
    change, expected = BROKEN[case]
    with pytest.raises(DeclarationError) as caught:
        text_contract(change)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_an_address_needs_no_hub() -> None:
    contract = text_contract(declared(hub=None, revision=None, url="https://example.org/set"))
    whole = edition(contract, "published")
    assert (
        whole.source.train is not None
        and whole.source.train.file.startswith("published/mail/")
        and whole.source.train.sha256 == DIGEST
    )


@pytest.mark.parametrize("contract", EDITIONS.values(), ids=EDITIONS)
def test_every_shipped_edition_is_pinned_and_its_deltas_fit_its_rows(
    contract: TextContract,
) -> None:
    assert (
        contract.edition_of is not None
        and contract.source.train is not None
        and contract.source.test is not None
    )
    bounds = [rows for label, rows in contract.row_bounds.items() if label != "ABBR"]
    assert contract.generation is None or contract.generation.delta * min(bounds) <= 1
    assert contract.ensemble is not None and contract.ensemble.delta * sum(bounds) < 1
    published = contract.edition_of.stated.source.published
    assert (
        published is not None
        and (published.revision or published.url)
        and published.train.rows
        and published.test.rows
    )
    assert sum(TEXT_CONTRACTS[contract.name].row_bounds.values()) <= published.train.rows


def test_no_edition_but_of_published_sets() -> None:
    assert {name for name, contract in TEXT_CONTRACTS.items() if edition_names(contract)} == {
        "agnews",
        "dbpedia",
        "mit_director",
        "mit_genre",
        "samsum",
        "sst2",
        "trec",
    }
