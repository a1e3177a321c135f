"""From a YAML file to a checked contract, and the cross-checks of a contract of texts.

The editions of a published set: the whole and its stated slices, each as a contract of its own.

The JSON schemas of contract files, for editors and other tools.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path, PurePath
from typing import Any, cast

from pydantic import BaseModel

from dpicl.contract.base import Problems
from dpicl.contract.declared import ORIGIN_WORDS, Declared
from dpicl.contract.models import Contract, check_series, check_text_series
from dpicl.contract.parts import VERSION
from dpicl.contract.rules import check_public_digest, check_public_queries, check_references
from dpicl.contract.text import (
    PUBLISHED,
    Classification,
    EditionOf,
    FreeText,
    Slice,
    TextContract,
    TextFile,
)
from dpicl.ground.errors import DeclarationError, DpiclError
from dpicl.ground.validation import first_of, validate
from dpicl.ground.yaml_file import parse_yaml, read_declaration


def parse_contract(content: Any, file: str, *, all_by: str = "") -> Contract | TextContract:
    """Check parsed YAML against the schema and the cross-references; `kind: text` tells texts from
    a table.

    Args:
        all_by: a command that shows all problems, where there is one.

    Raises:
        DeclarationError: names file, key, rule and expected shape.
    """
    try:
        return _checked(content, file, all_by)
    except DpiclError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it says, one contract stops no command on others
        rule = f"cannot be followed ({type(error).__name__})"
        expected = "a contract as docs/reference/contract.md has it; please report this one"
        raise DeclarationError(file, "", rule, expected) from None


def _checked(content: Any, file: str, all_by: str) -> Contract | TextContract:
    kind = content.get("kind") if isinstance(content, dict) else None
    contract: Contract | TextContract
    if kind is None:
        contract = validate(Contract, content, file, all_by=all_by)
        problems = chain(check_series(contract), check_references(contract))
    elif kind == "text":
        contract = validate(TextContract, content, file, all_by=all_by)
        problems = chain(_check_text_references(contract), check_text_series(contract))
    else:
        expected = "text, or no such key for a table"
        raise DeclarationError(file, "kind", f"got {str(kind)[:60]!r}", expected)
    if broken := list(_told(problems, file)):
        raise first_of(broken, all_by)
    return contract


def _told(problems: Problems, file: str) -> Iterator[DeclarationError]:
    """All of them; after a first one, as far as checks can go on with what it leaves."""
    is_broken = False
    try:
        for key, rule, wanted in problems:
            is_broken = True
            yield DeclarationError(file, key, rule, wanted)
    except Exception:
        if not is_broken:
            raise


def load_contract(path: Path) -> Contract | TextContract:
    """Read `<name>.yaml`; the file is called after the contract.

    Raises:
        DeclarationError: names file, key, rule and expected shape.
    """
    contract = _parsed(read_declaration(path), path.name)
    if path.stem != contract.name:
        raise DeclarationError(
            path.name, "name", f"is {contract.name!r}", f"{path.stem!r}, the file's own name"
        )
    return contract


@lru_cache(maxsize=256)  # every stage reads its own contract again
def _parsed(content: bytes, file: str) -> Contract | TextContract:
    every = f"dpicl contract check {PurePath(file).stem}"
    return parse_contract(parse_yaml(content, file), file, all_by=every)


def contract_digest(contract: Declared) -> str:
    """SHA-256 of the contract's content, whatever the order and spelling of its YAML; who pays,
    where and when is no part of it, nor are words on where the rows can be had, or the form by
    which released texts are judged.
    """
    excluded: Any = {
        "account": True,
        "releases": True,
        "ledger": True,
        "form": True,
        "source": set(ORIGIN_WORDS),
        "privacy": {"budget": {"by"}},
    }
    if contract.version > 1:
        excluded["population"] = True
        excluded["privacy"]["budget"] |= {"epsilon", "delta"}
    content = contract.model_dump_json(exclude=excluded, by_alias=True)
    return hashlib.sha256(
        (content if contract.version == 1 else f"{content} derived {VERSION}").encode()
    ).hexdigest()


def _check_text_references(contract: TextContract) -> Problems:
    if contract.privacy.unit != "row" and contract.generation is not None:
        expected = (
            "row, or `ensemble` alone: demonstrations are written from texts one by one, not from "
            "persons"
        )
        yield "privacy.unit", f"is {contract.privacy.unit}", expected
    if "sampling_rate" in contract.privacy.model_fields_set:
        expected = "no such key: subsets x examples / rows is the rate of every label"
        yield "privacy.sampling_rate", "has no meaning for texts", expected
    if contract.calibrate and not contract.is_classification:
        yield (
            "calibrate",
            "is true for open answers",
            "true only with a task of kind classification",
        )
    if contract.source.bundled and {contract.task.field, *contract.text_fields} != {
        "label",
        "text",
    }:
        yield (
            "source.bundled",
            "has the fields label and text",
            '`text: "{text}"` and `field: label`',
        )
    if contract.source.published is not None:
        yield from _check_editions(contract)
        return
    # A benchmark's held-out texts are its queries; texts with something at stake have public ones,
    # or none.
    if contract.is_benchmark and contract.source.bundled is None and contract.source.test is None:
        yield (
            "source.test",
            "is missing",
            "a file of held-out texts, which a benchmark is measured on",
        )
    if contract.is_benchmark and contract.source.queries is not None:
        yield (
            "source.queries",
            "has no meaning for a benchmark",
            "no such key: its held-out texts are public",
        )
    private = [
        contract.source.train.file if contract.source.train else None,
        contract.source.deliveries,
    ]
    yield from check_public_queries(contract.source.queries, private, "source.queries")
    for split, source in (("train", contract.source.train), ("test", contract.source.test)):
        if source is not None and source.sha256 is not None:
            yield from check_public_digest(contract, f"source.{split}.sha256")
    yield from _check_methods(contract)


def _check_editions(contract: TextContract) -> Problems:
    """Editions are of public texts, and every one of them has the rows that the methods need."""
    if not contract.is_benchmark:
        expected = (
            "`benchmark: true`, or `train`: which files hold private texts must not follow from "
            "what is in them"
        )
        yield "source.published", "has no meaning for texts with something at stake", expected
    for name in edition_names(contract):
        try:
            chosen = edition(contract, name)
        except ValueError as error:
            rule, _, expected = str(error).partition("; expected ")
            yield f"source.slices.{name}.bounds", rule, expected
        yield from _check_methods(chosen, "" if name == PUBLISHED else f"source.slices.{name}.")


def _check_methods(contract: TextContract, within: str = "") -> Problems:
    """There is a method for the contract, with the words and the rows that it needs."""
    if contract.generation is None and contract.ensemble is None:
        yield "generation", "and `ensemble` are missing", "one of them: the sizes of a method"
    if (contract.generation is None) != (contract.prompts.generation is None):
        yield "prompts.generation", "and `generation` go together", "both of them, or neither"
    if contract.generation is not None and isinstance(contract.task, FreeText):
        yield (
            "generation",
            "needs labels to write texts for",
            "`ensemble` only, with a task of kind generation",
        )
    if (contract.prompts.answering.keywords is not None) and contract.is_classification:
        yield (
            "prompts.answering.keywords",
            "has no meaning for labels",
            "no such key with a task of kind classification",
        )
    if contract.generation is None:
        return
    subsets = contract.generation.subsets
    examples = contract.generation.examples
    for label, rows in contract.row_bounds.items():
        if rows < subsets * examples:  # no label can be sampled at a rate above 1
            key = (
                f"{within}bounds"
                if within
                else f"task.labels.{label}.min_rows"
                if contract.is_classification
                else "task.min_rows"
            )
            needed = f"subsets x examples = {subsets} x {examples} = {subsets * examples}"
            yield (
                key,
                f"is {rows}, fewer than {needed}",
                f"at least {subsets * examples}, or smaller generation sizes",
            )


def edition_names(contract: TextContract) -> tuple[str, ...]:
    """The whole, then the slices in the contract's order; none of texts that are not published."""
    return () if contract.source.published is None else (PUBLISHED, *contract.source.slices)


def edition(contract: TextContract, name: str) -> TextContract:
    """The contract of one edition: with its own files, bounds and deltas.
    Raises KeyError: there is no such slice; ValueError: a slice's bounds are of other labels.
    """
    chosen = (
        _whole(contract) if name == PUBLISHED else _slice(contract, contract.source.slices[name])
    )
    chosen._edition_of = EditionOf(contract, name)
    return chosen


def accepted(contract: TextContract) -> str:
    """What a contract accepts as its files, and how to get it; for errors."""
    slices = [
        f"{name} at {slice_.train.file} (sha256 {str(slice_.train.sha256)[:12]})"
        for name, slice_ in contract.source.slices.items()
    ]
    below = f", or a slice below DPICL_DATA: {', '.join(slices)}" if slices else ""
    return f"the published set, which `dpicl data fetch {contract.name}` downloads{below}"


def _whole(contract: TextContract) -> TextContract:
    published = contract.source.published
    assert published is not None
    suffix = f".{published.form}" if published.form else ""
    files = {
        name: TextFile(
            file=f"published/{contract.name}/{published.version}/{file.file}{suffix}",
            sha256=file.sha256,
        )
        for name, file in (("train", published.train), ("test", published.test))
    }
    source = contract.source.model_copy(
        update={**files, "labels": published.labels, "published": None, "slices": {}}
    )
    task = contract.task.model_copy(update={"field": published.field or contract.task.field})
    return contract.model_copy(
        update={"source": source, "task": task, "text": published.text or contract.text}
    )


def _slice(contract: TextContract, slice_: Slice) -> TextContract:
    files: dict[str, object] = {
        "train": slice_.train,
        "test": slice_.test,
        "published": None,
        "slices": {},
    }
    changed: dict[str, object] = {
        "source": contract.source.model_copy(update=files),
        "task": _bounded(contract, slice_),
    }
    for key, delta in (
        ("generation", slice_.deltas.generation),
        ("ensemble", slice_.deltas.ensemble),
    ):
        sizes = getattr(contract, key)
        if sizes is not None and delta is not None:
            changed[key] = sizes.model_copy(update={"delta": delta})
    if slice_.deltas.budget is not None:
        budget = contract.privacy.budget.model_copy(update={"delta": slice_.deltas.budget})
        changed["privacy"] = contract.privacy.model_copy(update={"budget": budget})
    return contract.model_copy(update=changed)


def _bounded(contract: TextContract, slice_: Slice) -> object:
    """The task, with the slice's bounds on rows."""
    task, rows = contract.task, slice_.bounds
    if not isinstance(task, Classification):
        if not isinstance(rows, int):
            raise ValueError(  # noqa: TRY004
                "has bounds of labels; expected one number, since answers are no labels"
            )
        return task.model_copy(update={"min_rows": rows})
    by_label = dict.fromkeys(task.labels, rows) if isinstance(rows, int) else rows
    if by_label.keys() != task.labels.keys():
        raise ValueError(
            "has bounds of other labels; expected one for every label of the task, or one number "
            "for all"
        )
    labels = {
        label: words.model_copy(update={"min_rows": by_label[label]})
        for label, words in task.labels.items()
    }
    return task.model_copy(update={"labels": labels})


def json_schema(kind: type[Declared] = Contract) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of what `data_contracts/*.yaml` may say, or
    `data_contracts/texts/*.yaml`.

    Cross-references (a template's fields, the product of groups) are beyond a schema and are
    checked on loading. Editors show each key's docstring beside it.
    """
    schema = kind.model_json_schema()
    known = models()
    for name, part in {kind.__name__: schema, **schema["$defs"]}.items():
        descriptions = meanings(known[name])
        for key, content in part.get("properties", {}).items():
            content |= {"description": descriptions[key]} if key in descriptions else {}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def models(kind: type[BaseModel] = BaseModel) -> dict[str, type[BaseModel]]:
    """Our frozen types by name."""
    by_name = {kind.__name__: kind} if kind.__module__.startswith("dpicl.") else {}
    for subclass in kind.__subclasses__():
        by_name |= models(subclass)
    return by_name


def meanings(kind: type) -> dict[str, str]:
    """Docstrings of a type's keys, those that it inherits too, one line each."""
    described: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        if parent in (object, BaseModel):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(parent))).body
        for line, after in pairwise(cast(ast.ClassDef, tree).body):
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                described[ast.unparse(line.target)] = " ".join(str(after.value.value).split())
    return described


def schema_text(kind: type[Declared] = Contract) -> str:
    """A schema as it stands in the repository."""
    return json.dumps(json_schema(kind), indent=1, sort_keys=True) + "\n"
