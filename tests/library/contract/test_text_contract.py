"""Contracts over texts: broken ones are one sentence, shipped ones are whole, and both kinds share
what they declare.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.contract import Contract, TextContract, load_contract, parse_contract
from dpicl.contract.load import contract_digest, json_schema
from dpicl.contract.text import template_pieces
from dpicl.data.prompts import (
    asking_prompt,
    asking_query,
    continuations,
    example_piece,
    header_piece,
    instruction_piece,
)
from dpicl.data.text_files import text_violations
from dpicl.data.text_records import parse_texts
from dpicl.ground.errors import DeclarationError, DpiclError, ParameterError
from dpicl.home.settings import Settings

from ..examples import ROOT, one_sentence, put, tree
from ..text_contracts import (
    TEXT_CONTRACTS,
    as_ensemble,
    as_extraction,
    as_free_text,
    lines,
    records,
    text_contract,
    text_tree,
)
from .test_contract_fuzz import _mutate

every_text_contract = pytest.mark.parametrize(
    "contract", TEXT_CONTRACTS.values(), ids=TEXT_CONTRACTS
)
TEXTS = ROOT / "data_contracts" / "texts"
LABELS, SIZES, ASKING, ENSEMBLE = (
    ("task", "labels"),
    ("generation",),
    ("prompts", "answering"),
    ("ensemble",),
)


def both(*changes: Callable[[Any], None]) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for one in changes:
            one(content)

    return change


def without(*keys: str) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for key in keys:
            del content[key]

    return change


PERSON = {
    "unit": "person",
    "person": {"id_column": "who", "max_rows": 1},
    "budget": {"benchmark": True},
}
BROKEN: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "kind": (
        put("kind")("image"),
        "kind",
        "got 'image'; expected text, or no such key for a table",
    ),
    "unknown key": (put("columns")({}), "columns", "unknown key"),
    "unknown key of a prompt": (
        put(*ASKING, "label")("x"),
        "prompts.answering.label",
        "unknown key",
    ),
    "persons": (put("privacy")(PERSON), "privacy.unit", "expected row, or `ensemble` alone"),
    "a rate": (
        put("privacy", "sampling_rate")("1/2"),
        "privacy.sampling_rate",
        "subsets x examples / rows is the rate",
    ),
    "a benchmark without held-out texts": (
        put("source", "test")(None),
        "source.test",
        "a file of held-out texts",
    ),
    "queries of a benchmark": (
        put("source", "queries")({"file": "public.jsonl"}),
        "source.queries",
        "its held-out texts are public",
    ),
    "no source": (
        put("source", "train")(None),
        "source",
        "expected `train` with `test` or `queries`, `deliveries`, `published`, or `bundled`",
    ),
    "two sources": (
        put("source", "bundled")("docstrings"),
        "source",
        "expected `train` with `test` or `queries`, `deliveries`, `published`, or `bundled`",
    ),
    "absolute path": (
        put("source", "train", "file")("/etc/passwd"),
        "source.train.file",
        "expected text of the form",
    ),
    **{
        f"a plain hash of private texts, {split}": (
            both(
                put("source", split, "sha256")("0" * 64),
                put("privacy", "budget")({"epsilon": 1, "delta": 1e-5}),
            ),
            f"source.{split}.sha256",
            "against which guesses can be tried; expected no such key but in a benchmark",
        )
        for split in ("train", "test")
    },
    "short digest": (
        put("source", "train", "sha256")("ab"),
        "source.train.sha256",
        "expected text of the form",
    ),
    "bundled with other fields": (
        put("source")({"title": "t", "licence": "l", "citation": "c", "bundled": "docstrings"}),
        "source.bundled",
        "field: label",
    ),
    "text without a field": (
        put("text")("hello"),
        "text",
        "names no field; expected at least one place written {field}",
    ),
    "text with a format": (put("text")("{body:>9}"), "text", "has a place that is no field"),
    "text with an index": (put("text")("{0}"), "text", "has a place that is no field"),
    "text with an attribute": (
        put("text")("{a.__class__[0]}"),
        "text",
        "has a place that is no field",
    ),
    "brace not closed": (put("text")("{body"), "text", "expected places written {field}"),
    "length zero": (
        put("max_characters")(0),
        "max_characters",
        "expected greater than or equal to 1",
    ),
    "task": (put("task", "kind")("ranking"), "task", "expected 'classification', 'extraction'"),
    "no method": (
        without("generation"),
        "generation",
        "and `ensemble` are missing; expected one of them: the sizes of a method",
    ),
    "sizes without words": (
        put("prompts", "generation")(None),
        "prompts.generation",
        "and `generation` go together; expected both",
    ),
    "words without sizes": (
        both(as_ensemble, without("generation")),
        "prompts.generation",
        "and `generation` go together",
    ),
    "texts written for answers that are texts": (
        both(
            as_free_text,
            put(*SIZES)(text_tree()["generation"]),
            put("prompts", "generation")(text_tree()["prompts"]["generation"]),
        ),
        "generation",
        "needs labels to write texts for; expected `ensemble` only",
    ),
    "keywords for labels": (
        put(*ASKING, "keywords")("With"),
        "prompts.answering.keywords",
        "has no meaning for labels; expected no such key",
    ),
    "keywords on two lines": (
        both(as_free_text, put(*ASKING, "keywords")("a\nb")),
        "prompts.answering.keywords",
        "expected text of the form",
    ),
    "labels of answers that are texts": (
        both(as_free_text, put(*LABELS)(["a"])),
        "task.labels",
        "unknown key",
    ),
    "answers calibrated": (
        both(as_free_text, put("calibrate")(True)),
        "calibrate",
        "only with a task of kind classification",
    ),
    "answer without tokens": (
        both(as_free_text, put("task", "answer_tokens")(0)),
        "task.answer_tokens",
        "greater than or equal to 1",
    ),
    "answers without rows": (
        both(as_free_text, put("task", "min_rows")(0)),
        "task.min_rows",
        "expected greater than or equal to 1",
    ),
    "one voter": (
        both(as_free_text, put(*ENSEMBLE, "subsets")(1)),
        "ensemble.subsets",
        "expected greater than or equal to 2",
    ),
    "ensemble without delta": (
        both(as_free_text, put(*ENSEMBLE)({"subsets": 2})),
        "ensemble.delta",
        "missing",
    ),
    "delta of an ensemble": (
        both(as_free_text, put(*ENSEMBLE, "delta")(1)),
        "ensemble.delta",
        "expected a delta in (0, 1)",
    ),
    "one text to choose from": (
        both(as_free_text, put(*ENSEMBLE, "candidates")(1)),
        "ensemble.candidates",
        "greater than or equal to 2",
    ),
    "no keywords": (
        both(as_free_text, put(*ENSEMBLE, "keywords")(0)),
        "ensemble.keywords",
        "greater than or equal to 1",
    ),
    "one label": (
        put(*LABELS)({"good": {"text": "Good", "min_rows": 9}}),
        "task.labels",
        "at least 2 items",
    ),
    "texts of labels alike": (
        put(*LABELS, "bad", "text")("Wanted"),
        "task",
        "expected a text of its own for every label",
    ),
    "text of a label empty": (
        put(*LABELS, "bad", "text")(""),
        "task.labels.bad.text",
        "expected text",
    ),
    "text of a label on two lines": (
        put(*LABELS, "bad", "text")("a\nb"),
        "task.labels.bad.text",
        "expected text of the form",
    ),
    "blank before a label": (
        put(*LABELS, "bad", "text")(" a"),
        "task.labels.bad.text",
        "expected text of the form",
    ),
    "no rows": (
        put(*LABELS, "bad", "min_rows")(0),
        "task.labels.bad.min_rows",
        "expected greater than or equal to 1",
    ),
    "label smaller than a sample": (
        put(*LABELS, "bad", "min_rows")(3),
        "task.labels.bad.min_rows",
        "is 3, fewer than subsets x examples = 2 x 2 = 4; expected at least 4",
    ),
    "answers fewer than a sample": (
        both(as_extraction, put("task", "min_rows")(3)),
        "task.min_rows",
        "is 3, fewer than subsets x examples = 2 x 2",
    ),
    "answer twice": (
        both(as_extraction, put("task", "labels")(["ann", "ann"])),
        "task.labels",
        "expected distinct labels",
    ),
    "open answers calibrated": (
        both(as_extraction, put("calibrate")(True)),
        "calibrate",
        "only with a task of kind classification",
    ),
    "instruction on two lines": (
        put(*ASKING, "instruction")("a\n\nb"),
        "prompts.answering.instruction",
        "expected text of the form",
    ),
    "no subsets": (
        put(*SIZES, "subsets")(0),
        "generation.subsets",
        "expected greater than or equal to 1",
    ),
    "candidates left out": (
        lambda content: content["generation"].pop("candidates"),
        "generation.candidates",
        "missing",
    ),
    "one candidate": (
        put(*SIZES, "candidates")(1),
        "generation.candidates",
        "expected greater than or equal to 2",
    ),
    "delta zero": (put(*SIZES, "delta")(0), "generation.delta", "expected a delta in (0, 1)"),
    "delta one": (put(*SIZES, "delta")(1), "generation.delta", "expected a delta in (0, 1)"),
    "delta of text": (
        put(*SIZES, "delta")("small"),
        "generation.delta",
        "expected a number or a fraction",
    ),
    "no queries": (put("query_count")(0), "query_count", "expected greater than or equal to 1"),
}


@pytest.mark.parametrize(("change", "key", "phrase"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rule_is_one_sentence_with_its_key_and_the_expected_shape(
    change: Callable[[Any], None], key: str, phrase: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        text_contract(change)
    text = one_sentence(caught.value, "mail.yaml")
    assert text.startswith(f"mail.yaml: {key}: ") and phrase in text and "; expected " in text, text


def test_the_contract_that_is_broken_above_is_whole_in_both_forms() -> None:
    whole, open_answers = text_contract(), text_contract(as_extraction)
    assert (whole.demonstrated, whole.row_bounds, whole.label_text("bad")) == (
        ("good", "bad"),
        {"good": 4, "bad": 4},
        "Unwanted",
    )
    assert (open_answers.demonstrated, open_answers.row_bounds) == (("ann", "bob"), {"": 4})
    assert open_answers.label_text("not on the list") == "not on the list"
    assert (whole.is_classification, open_answers.is_classification) == (True, False)
    assert whole.text_fields == ("head", "body") and whole.generation.delta == Fraction(1, 100)


def test_a_template_is_parted_into_literals_and_fields() -> None:
    assert template_pieces("{a} {{x}} {b.c}!") == (
        ("", "a"),
        (" {", None),
        ("x}", None),
        (" ", "b.c"),
        ("!", None),
    )


def test_the_order_of_a_tables_fields_is_as_ever_since_its_digest_hangs_on_it() -> None:
    assert list(json.loads(parse_contract(tree(), "shop.yaml").model_dump_json())) == [
        "version",
        "name",
        "description",
        "source",
        "privacy",
        "split",
        "columns",
        "label",
        "groups",
        "local",
        "prompts",
        "checks",
    ]


def test_the_digest_of_texts_changes_with_what_is_said_and_not_with_how() -> None:
    spelled = text_contract(lambda content: content["generation"].update(delta=0.01))
    assert contract_digest(spelled) == contract_digest(text_contract())
    assert contract_digest(text_contract(put("query_count")(1))) != contract_digest(text_contract())


def test_the_stored_schema_is_the_generated_one() -> None:
    assert json.loads((TEXTS / "schema.json").read_text()) == json_schema(TextContract)


@pytest.mark.quick("mit_director")
@every_text_contract
def test_a_shipped_contract_fits_the_schema(contract: TextContract) -> None:
    content = yaml.safe_load((TEXTS / f"{contract.name}.yaml").read_text())
    assert [
        error.message
        for error in jsonschema.Draft202012Validator(json_schema(TextContract)).iter_errors(content)
    ] == []


TABLE_9 = {
    "agnews": (10, 2, 100, 100),
    "dbpedia": (40, 2, 100, 100),
    "trec": (80, 1, None, 15),
    "mit_genre": (20, 4, 100, 20),
    "mit_director": (20, 4, 100, 20),
}
"""M, N, K, T_max."""


def test_the_sizes_are_those_of_table_9() -> None:
    assert {name for name, contract in TEXT_CONTRACTS.items() if contract.generation} == {
        *TABLE_9,
        "sst2",
        "docstrings",
    }
    for name, published in TABLE_9.items():
        sizes = TEXT_CONTRACTS[name].generation
        assert (sizes.subsets, sizes.examples, sizes.candidates, sizes.max_tokens) == published, (
            name
        )


@every_text_contract
def test_no_row_is_likely_to_be_shown_as_it_is(contract: TextContract) -> None:
    """delta is at most about one over the rows of a label, Abbreviation left aside as in the paper;
    of ensembles, over all rows.
    """
    bounds = [rows for label, rows in contract.row_bounds.items() if label != "ABBR"]
    assert contract.generation is None or contract.generation.delta <= Fraction(1, min(bounds))
    assert contract.ensemble is None or contract.ensemble.delta <= Fraction(1, sum(bounds))


@every_text_contract
def test_every_label_is_named_in_the_instruction(contract: TextContract) -> None:
    """Phrases of a text and sentiments are asked for without one, as Zhao et al. do."""
    instruction = contract.prompts.answering.instruction
    bare = contract.task.kind == "extraction" or contract.name in ("amazon", "sst2")
    assert (instruction is None) == bare
    assert instruction is None or all(
        contract.label_text(label) in instruction for label in contract.demonstrated
    )


@pytest.fixture
def place(tmp_path: Path) -> Settings:
    """Folders with one table and one set of texts."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(tree(), sort_keys=False))
    (tmp_path / "texts" / "mail.yaml").write_text(yaml.safe_dump(text_tree(), sort_keys=False))
    return Settings(
        tmp_path / "home", None, tmp_path, tmp_path / "pipelines.yaml", tmp_path / "runs"
    )


def test_settings_know_both_kinds_by_name(place: Settings) -> None:
    shipped = replace(place, contracts=place.home)  # there are none of one's own in there
    assert (
        place.contract_names() == sorted(["shop", *shipped.contract_names()])
        and "adult" in shipped.contract_names()
    )
    assert (
        place.text_names() == sorted(["mail", *shipped.text_names()])
        and "agnews" in shipped.text_names()
    )
    assert isinstance(place.declared("shop"), Contract) and isinstance(
        place.declared("mail"), TextContract
    )
    assert (place.contract("shop").name, place.texts("mail").name) == ("shop", "mail")
    for ask, expected in (
        (place.contract, ", shop$"),
        (place.texts, ", mail, .*"),
        (place.declared, ", shop, .*mail, .*"),
    ):
        with pytest.raises(ParameterError, match=f"expected one of .*{expected}"):
            ask("../shop")
    with pytest.raises(ParameterError):
        place.contract("mail")


def test_one_name_for_two_kinds_and_a_kind_in_the_wrong_folder_are_refused(place: Settings) -> None:
    (place.contracts / "mail.yaml").write_text(yaml.safe_dump(text_tree(), sort_keys=False))
    (place.contracts / "texts" / "shop.yaml").write_text(yaml.safe_dump(tree(), sort_keys=False))
    for name in ("mail", "shop"):
        with pytest.raises(
            DeclarationError, match="is also the name of a table; expected a name of its own"
        ):
            place.declared(name)
    with pytest.raises(DeclarationError, match="expected contracts of texts in the folder texts"):
        place.contract("mail")
    (place.contracts / "shop.yaml").unlink()
    with pytest.raises(DeclarationError, match="expected contracts of texts in the folder texts"):
        place.texts("shop")


def _use(content: dict[str, Any]) -> None:
    """A contract that loads reads records, checks them and puts them into prompts, or refuses
    them.
    """
    contract = parse_contract(content, "mail.yaml")
    assert isinstance(contract, TextContract)
    table = parse_texts(lines(records(6)), contract, "train.jsonl")
    text_violations(table.add_column(0, "part", [["train"] * 6]), contract)
    if contract.generation is not None:
        first = contract.label_text(contract.demonstrated[0])
        assert all(
            (
                instruction_piece(contract),
                example_piece(contract, "x", first),
                header_piece(contract, first),
            )
        )
    assert asking_prompt(contract, (), asking_query(contract, "x")).endswith(":")
    assert not contract.is_classification or len(set(continuations(contract))) == len(
        contract.demonstrated
    )


@given(
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.sampled_from([lambda content: None, as_extraction, as_free_text]),
)
@settings(max_examples=4 * settings.default.max_examples)
def test_a_contract_changed_at_random_works_or_is_refused_in_one_sentence(
    seed: int, deeds: int, form: Callable[[Any], None]
) -> None:
    content, dice = text_tree(), random.Random(seed)
    form(content)
    for _ in range(deeds):
        _mutate(content, dice)
    if content.get("kind") is None:
        return
    try:
        _use(content)
    except DeclarationError as error:
        one_sentence(error, "mail.yaml")
    except DpiclError as error:
        assert str(error).isprintable()


def test_a_contract_is_called_after_its_file(tmp_path: Path) -> None:
    (tmp_path / "post.yaml").write_text(yaml.safe_dump(text_tree(), sort_keys=False))
    with pytest.raises(DeclarationError, match="expected 'post', the file's own name"):
        load_contract(tmp_path / "post.yaml")
