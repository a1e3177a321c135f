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

from dpicl.contract import TextContract, load_contract, parse_contract
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

from ..examples import REMOVED, ROOT, changed, one_sentence, put, tree
from ..text_contracts import (
    TEXT_CONTRACTS,
    as_ensemble,
    as_extraction,
    as_free_text,
    every_text_contract,
    lines,
    records,
    text_contract,
    text_tree,
)
from .test_contract_fuzz import _mutate

TEXTS = ROOT / "data_contracts" / "texts"


def as_it_is(content: Any) -> None:
    """No change."""


BROKEN: dict[Callable[[Any], None], dict[str, tuple[Any, ...]]] = {
    as_it_is: {
        "kind": ("kind", "image", "got 'image'; expected text, or no such key for a table"),
        "unknown key": ("columns", {}, "unknown key"),
        "unknown key of a prompt": ("prompts.answering.label", "x", "unknown key"),
        "persons": (
            "privacy",
            {
                "unit": "person",
                "person": {"id_column": "who", "max_rows": 1},
                "budget": {"benchmark": True},
            },
            "expected row, or `ensemble` alone",
            "privacy.unit",
        ),
        "a rate": ("privacy.sampling_rate", "1/2", "subsets x examples / rows is the rate"),
        "a benchmark without held-out texts": ("source.test", None, "a file of held-out texts"),
        "queries of a benchmark": (
            "source.queries",
            {"file": "public.jsonl"},
            "its held-out texts are public",
        ),
        "no source": (
            "source.train",
            None,
            "expected `train` with `test` or `queries`, `deliveries`, `published`, or `bundled`",
            "source",
        ),
        "two sources": (
            "source.bundled",
            "docstrings",
            "expected `train` with `test` or `queries`, `deliveries`, `published`, or `bundled`",
            "source",
        ),
        "absolute path": ("source.train.file", "/etc/passwd", "expected text of the form"),
        "a plain hash of private texts, train": (
            {"source.train.sha256": "0" * 64, "privacy.budget": {"epsilon": 1, "delta": 1e-5}},
            None,
            "against which guesses can be tried; expected no such key but in a benchmark",
            "source.train.sha256",
        ),
        "a plain hash of private texts, test": (
            {"source.test.sha256": "0" * 64, "privacy.budget": {"epsilon": 1, "delta": 1e-5}},
            None,
            "against which guesses can be tried; expected no such key but in a benchmark",
            "source.test.sha256",
        ),
        "short digest": ("source.train.sha256", "ab", "expected text of the form"),
        "bundled with other fields": (
            "source",
            {"title": "t", "licence": "l", "citation": "c", "bundled": "docstrings"},
            "field: label",
            "source.bundled",
        ),
        "text without a field": (
            "text",
            "hello",
            "names no field; expected at least one place written {field}",
        ),
        "text with a format": ("text", "{body:>9}", "has a place that is no field"),
        "text with an index": ("text", "{0}", "has a place that is no field"),
        "text with an attribute": ("text", "{a.__class__[0]}", "has a place that is no field"),
        "brace not closed": ("text", "{body", "expected places written {field}"),
        "length zero": ("max_characters", 0, "expected greater than or equal to 1"),
        "task": ("task.kind", "ranking", "expected one of classification, extraction"),
        "no method": (
            "generation",
            REMOVED,
            "and `ensemble` are missing; expected one of them: the sizes of a method",
        ),
        "sizes without words": (
            "prompts.generation",
            None,
            "and `generation` go together; expected both",
        ),
        "keywords for labels": (
            "prompts.answering.keywords",
            "With",
            "has no meaning for labels; expected no such key",
        ),
        "one label": ("task.labels", {"good": {"text": "Good", "min_rows": 9}}, "at least 2 items"),
        "texts of labels alike": (
            "task.labels.bad.text",
            "Wanted",
            "expected a text of its own for every label",
            "task",
        ),
        "text of a label empty": ("task.labels.bad.text", "", "expected text"),
        "text of a label on two lines": (
            "task.labels.bad.text",
            "a\nb",
            "expected text of the form",
        ),
        "blank before a label": ("task.labels.bad.text", " a", "expected text of the form"),
        "no rows": ("task.labels.bad.min_rows", 0, "expected greater than or equal to 1"),
        "label smaller than a sample": (
            "task.labels.bad.min_rows",
            3,
            "is 3, fewer than subsets x examples = 2 x 2 = 4; expected at least 4",
        ),
        "instruction on two lines": (
            "prompts.answering.instruction",
            "a\n\nb",
            "expected text of the form",
        ),
        "no subsets": ("generation.subsets", 0, "expected greater than or equal to 1"),
        "candidates left out": ("generation.candidates", REMOVED, "missing"),
        "one candidate": ("generation.candidates", 1, "expected greater than or equal to 2"),
        "delta zero": ("generation.delta", 0, "expected a delta in (0, 1)"),
        "delta one": ("generation.delta", 1, "expected a delta in (0, 1)"),
        "delta of text": ("generation.delta", "small", "expected a number or a fraction"),
        "no queries": ("query_count", 0, "expected greater than or equal to 1"),
    },
    as_ensemble: {
        "words without sizes": (
            "generation",
            REMOVED,
            "and `generation` go together",
            "prompts.generation",
        ),
    },
    as_free_text: {
        "keywords on two lines": (
            "prompts.answering.keywords",
            "a\nb",
            "expected text of the form",
        ),
        "labels of answers that are texts": ("task.labels", ["a"], "unknown key"),
        "answers calibrated": ("calibrate", True, "only with a task of kind classification"),
        "answer without tokens": ("task.answer_tokens", 0, "greater than or equal to 1"),
        "answers without rows": ("task.min_rows", 0, "expected greater than or equal to 1"),
        "one voter": ("ensemble.subsets", 1, "expected greater than or equal to 2"),
        "ensemble without delta": ("ensemble", {"subsets": 2}, "missing", "ensemble.delta"),
        "delta of an ensemble": ("ensemble.delta", 1, "expected a delta in (0, 1)"),
        "one text to choose from": ("ensemble.candidates", 1, "greater than or equal to 2"),
        "no keywords": ("ensemble.keywords", 0, "greater than or equal to 1"),
        "texts written for answers that are texts": (
            {
                "generation": text_tree()["generation"],
                "prompts.generation": text_tree()["prompts"]["generation"],
            },
            None,
            "needs labels to write texts for; expected `ensemble` only",
            "generation",
        ),
    },
    as_extraction: {
        "answers fewer than a sample": (
            "task.min_rows",
            3,
            "is 3, fewer than subsets x examples = 2 x 2",
        ),
        "answer twice": ("task.labels", ["ann", "ann"], "expected distinct labels"),
        "open answers calibrated": ("calibrate", True, "only with a task of kind classification"),
    },
}
"""By the form of a contract, as in `test_contract_errors`."""


@pytest.mark.parametrize(
    ("form", "case"),
    [
        pytest.param(form, case, id=name)
        for form, cases in BROKEN.items()
        for name, case in cases.items()
    ],
)
def test_a_broken_rule_is_one_sentence_with_its_key_and_the_expected_shape(
    form: Callable[[Any], None], case: tuple[Any, ...]
) -> None:
    place, value, phrase, *key = case
    content = text_tree()
    form(content)
    changed(content, place if isinstance(place, dict) else {place: value})
    with pytest.raises(DeclarationError) as caught:
        parse_contract(content, "mail.yaml")
    text = one_sentence(caught.value, "mail.yaml")
    assert text.startswith(f"mail.yaml: {(key or [place])[0]}: ") and phrase in text, text
    assert "; expected " in text


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
    assert " ".join(json.loads(parse_contract(tree(), "shop.yaml").model_dump_json())) == (
        "version name description source privacy split columns label groups local prompts checks"
    )


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


def test_the_sizes_are_those_of_table_9() -> None:
    """M, N, K, T_max."""
    table_9 = {
        "agnews": (10, 2, 100, 100),
        "dbpedia": (40, 2, 100, 100),
        "trec": (80, 1, None, 15),
        "mit_genre": (20, 4, 100, 20),
        "mit_director": (20, 4, 100, 20),
    }
    sizes = {name: one.generation for name, one in TEXT_CONTRACTS.items() if one.generation}
    assert sizes.keys() == {*table_9, "sst2", "docstrings"}
    assert table_9 == {
        name: (one.subsets, one.examples, one.candidates, one.max_tokens)
        for name, one in sizes.items()
        if name in table_9
    }


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
    assert place.contract_names() == sorted(["shop", *shipped.contract_names()])
    assert place.text_names() == sorted(["mail", *shipped.text_names()])
    assert "adult" in shipped.contract_names() and "agnews" in shipped.text_names()
    assert place.declared("shop") == place.contract("shop")
    assert place.declared("mail") == place.texts("mail")
    for ask, name, expected in (
        (place.contract, "mail", "shop, adult, .*"),
        (place.contract, "../shop", "did you mean 'shop'"),
        (place.texts, "../shop", "mail, agnews, .*"),
        (place.declared, "../shop", "shop, mail, .*"),
    ):
        with pytest.raises(ParameterError, match=f"expected one of .*{expected}"):
            ask(name)


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
    table = parse_texts(lines(records(6)), contract, "train.jsonl")
    text_violations(table.add_column(0, "part", [["train"] * table.num_rows]), contract)
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
