"""Cross-checks between the parts of a contract; each failure is one sentence.

What to think over in a contract before it is released by: public facts only, and nothing is
refused.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import PurePosixPath

from dpicl.contract.base import Problems
from dpicl.contract.columns import Column
from dpicl.contract.contradictions import check_relations
from dpicl.contract.declared import Declared, QueryFile
from dpicl.contract.models import Contract
from dpicl.contract.parts import Attribute, GroupKey, Label, Prompts, Template
from dpicl.contract.text import TextFile
from dpicl.ground.errors import one_of
from dpicl.ground.types import LABEL

MAX_LEVELS = 256
"""Of one attribute: its codes are bytes."""


def check_references(contract: Contract) -> Problems:
    """Every name, cut and category that one part uses exists in another."""
    yield from _check_stated(contract)
    yield from _check_rules(contract)
    yield from _check_held_out(contract)
    yield from _check_file_columns(contract)
    person = contract.person
    if person and person.id_column in (*contract.columns, *contract.source.ignore):
        expected = "a column of the source that is used nowhere else in the contract"
        yield "privacy.person.id_column", "is also declared or ignored", expected
    if contract.source.content_sha256 is not None:
        yield from check_public_digest(contract, "source.content_sha256")
    yield from _check_groups(contract)
    names = [attribute.name for attribute in contract.attributes]
    if len(set(names)) != len(names) or LABEL in names:
        yield "local", "an attribute name is repeated", f"distinct names other than {LABEL!r}"
    for attribute in contract.attributes:
        if attribute.part_count > MAX_LEVELS:
            yield (
                f"local.{attribute.name}",
                f"has {attribute.part_count} parts",
                f"at most {MAX_LEVELS}",
            )
        if attribute.column in (contract.label_column, contract.split_column):
            yield f"local.{attribute.name}.column", "is the label or the split", "a feature column"
    if contract.prompts is not None:
        yield from _check_templates(contract, contract.prompts)
    yield from check_relations(contract.relations, contract.columns)
    for index, check in enumerate(contract.checks):
        if check.column is not None:
            yield from _check_column(contract, check.column, f"checks.{index}.column")


def _check_stated(contract: Contract) -> Problems:
    """What cannot be derived is there, and bins, from which much is derived, lie within the
    bounds.
    """
    for key, stated in (("local", contract.local), ("prompts", contract.prompts)):
        if contract.version == 1 and not stated:
            yield key, "is missing", "this key, or `version: 2`, in which it is derived"
    if contract.source.frame and contract.account is None:
        yield "account", "is missing", "the name of the account that pays for rows of a program"
    if not contract.features:
        yield (
            "columns",
            "has no column beside the label",
            "at least one column to describe a row by",
        )
    for name, column in contract.columns.items():
        if column.invalid == "missing" and not column.nullable:
            yield (
                f"columns.{name}.invalid",
                "is missing of a column without missing values",
                "`nullable: true` beside it",
            )
        yield from _check_missing(contract, name, column)
        number = contract.numbers.get(name)
        if number is not None and number.bins is not None:
            yield from number.check_bins(f"columns.{name}.bins")
            if name not in contract.features and (
                name != contract.label_column or contract.target.kind != "number"
            ):
                yield (
                    f"columns.{name}.bins",
                    "is of no feature",
                    "bins of features, or of a number to predict",
                )


def _check_file_columns(contract: Contract) -> Problems:
    """What `source` says of columns of a file is of those that are read."""
    source = contract.source
    for name in source.rename.values():
        if name not in (*contract.read_columns, *source.ignore):
            yield "source.rename", f"gives the name {name!r}", "a column of the contract"
    for name in source.dates if isinstance(source.dates, dict) else ():
        column = contract.columns.get(name)
        if name != source.arrived and (column is None or column.takes != "dates"):
            yield f"source.dates.{name}", "is no column of dates", "`type: date` or `datetime`"


def _check_missing(contract: Contract, name: str, column: Column) -> Problems:
    """No word means that a value is missing, and a value: rows that have it would be dropped
    without a word.
    """
    for word in contract.missing_words(name):
        if column.holds(word):
            stated = f"columns.{name}.missing" if column.missing is not None else "source.missing"
            rule = (
                f"has {word!r} among its values, and {stated} says that it stands for a missing one"
            )
            yield (
                f"columns.{name}.{column.stated_in}",
                rule,
                f"other {column.stated_in}, or `missing: [...]` in this column, perhaps none",
            )


def _check_rules(contract: Contract) -> Problems:
    rules: dict[str, Label | GroupKey | Attribute] = {}
    label = contract.label
    if label is not None:
        yield from _check_column(contract, label.column, "label.column")
        column = contract.columns[label.column]
        target = contract.target
        if label.answers and not label.has_rule and label.column in contract.numbers:
            yield (
                "label.answers",
                "word a number",
                "`cuts` with an answer for each part, or no answers",
            )
        if label.answers and not label.has_rule and target.count != column.count():
            yield (
                "label.answers",
                f"has {target.count} answers",
                f"{column.count()}: one per category",
            )
        if target.count < 2 or len(set(target.answers)) != target.count:
            yield (
                "label",
                "has one answer, or one that stands twice",
                "a column with two values or more, worded differently",
            )
        if target.count > MAX_LEVELS:
            yield "label", f"has {target.count} classes", f"at most {MAX_LEVELS}"
        if label.has_rule:
            rules["label"] = label
    for k, keys in contract.group_keys.items():
        rules |= {
            f"groups.{k}.{index}": group
            for index, group in enumerate(keys)
            if isinstance(group, GroupKey)
        }
    for key, rule in (
        rules | {f"local.{attribute.name}": attribute for attribute in contract.attributes}
    ).items():
        yield from _check_column(contract, rule.column, f"{key}.column")
        yield from contract.columns[rule.column].check_rule(rule, key)


def _check_column(contract: Contract, name: str, key: str) -> Problems:
    if name not in contract.columns:
        yield (
            key,
            f"names {name!r}, which is not a column",
            one_of(name, contract.columns),
        )


def check_public_queries(
    queries: QueryFile | TextFile | None, private: Iterable[str | None], key: str
) -> Problems:
    """The file of queries neither is nor lies in one of the private places, whose rows any model
    would see.
    """
    if queries is not None and any(
        PurePosixPath(queries.file).is_relative_to(place) for place in private if place
    ):
        yield key, "is one of the private files", "a public file, which any model may see"


def _check_held_out(contract: Contract) -> Problems:
    """A benchmark holds rows out; any other table may name public rows to measure on, or charge for
    held-out ones.
    """
    split, source = contract.split, contract.source
    yield from check_public_queries(
        contract.queries, [source.file, source.folder, source.deliveries], "queries"
    )
    charged = split is not None and split.evaluation_epsilon is not None
    for key, stated in (
        ("queries", contract.queries is not None),
        ("split.evaluation_epsilon", charged),
    ):
        if stated and contract.label is None:
            yield key, "has no meaning without a label", "no such key, or `label`"
    if contract.is_benchmark:
        if split is None:
            expected = (
                "how a benchmark's rows are held out: column, train and test, or test_fraction"
            )
            yield "split", "is missing", expected
        if contract.queries is not None:
            yield (
                "queries",
                "has no meaning for a benchmark",
                "no such key: its held-out rows are public",
            )
        if charged:
            yield (
                "split.evaluation_epsilon",
                "has no meaning for a benchmark",
                "no such key: nothing is charged",
            )
    if contract.queries is not None and charged:
        yield "queries", "is given beside `split.evaluation_epsilon`", "one of both to measure on"
    if split is not None and split.column is not None:
        yield from _check_column(contract, split.column, "split.column")
        listed = contract.listed.get(split.column)
        if listed is None or not {split.train, split.test} <= set(listed.categories):
            expected = "a category column with the train and test values"
            yield "split.column", "lacks the train or the test value", expected


def check_public_digest(contract: Declared, key: str) -> Problems:
    """A plain hash of rows stands in a contract of public rows alone: who knows all rows but one
    can test guesses of that one against it.
    """
    if not contract.is_benchmark:
        yield (
            key,
            "is a hash of private rows, against which guesses can be tried",
            "no such key but in a benchmark",
        )


def _check_groups(contract: Contract) -> Problems:
    for k, keys in contract.group_keys.items():
        if contract.target.kind == "none" and "label" in keys:
            yield f"groups.{k}", "groups by a label that is not declared", "keys with columns"
        if any(isinstance(key, GroupKey) and key.missing for key in keys):
            yield (
                f"groups.{k}",
                "groups by a number that may be missing",
                "columns that are not nullable, or of categories",
            )
        sizes = [contract.target.count if key == "label" else key.part_count for key in keys]
        if prod(sizes) != k:
            product = " x ".join(map(str, sizes)) or "none"
            yield f"groups.{k}", f"the keys make {product} = {prod(sizes)} groups", f"{k} groups"
        columns = [contract.label_column if key == "label" else key.column for key in keys]
        if len(set(columns)) != len(columns):
            yield f"groups.{k}", "two keys use one column", "distinct columns"
        if "label" not in keys and contract.label_column in columns:
            yield f"groups.{k}", "splits the label's column by another rule", "the key `label`"


def _check_templates(contract: Contract, prompts: Prompts) -> Problems:
    attributes = {attribute.name: attribute for attribute in contract.attributes}
    yield from _check_template(prompts.local, attributes, "prompts.local")
    for name, word in prompts.local.words.items():
        expected = attributes[word.field].part_count
        if word.cuts or word.missing or word.parts or len(word.texts) != expected:
            yield (
                f"prompts.local.words.{name}",
                f"has {len(word.texts)} texts",
                f"{expected} texts and no rule: attribute {word.field!r} has {expected} parts",
            )
    columns = {name: contract.columns[name] for name in contract.features}
    yield from _check_template(prompts.central, columns, "prompts.central")
    for name, word in prompts.central.words.items():
        if not (word.cuts or word.parts):
            yield f"prompts.central.words.{name}", "has no rule", "either `cuts` or `parts`"
        yield from columns[word.field].check_rule(word, f"prompts.central.words.{name}")
        if len(word.texts) != max(
            len(word.cuts) + 1 + word.missing if word.cuts else 0, len(word.parts)
        ):
            yield (
                f"prompts.central.words.{name}.texts",
                f"has {len(word.texts)} texts",
                "one text per part",
            )


def _check_template(
    template: Template, fields: dict[str, Attribute] | dict[str, Column], key: str
) -> Problems:
    for name, word in template.words.items():
        if name in fields:
            yield f"{key}.words.{name}", "hides a field of the same name", "another name"
        if word.field not in fields:
            yield (
                f"{key}.words.{name}.field",
                f"names {word.field!r}, which is not there",
                one_of(word.field, fields),
            )
        yield from _check_places(word.texts, set(fields), f"{key}.words.{name}.texts")
    yield from _check_places([template.text], set(fields) | set(template.words), f"{key}.text")


def _check_places(texts: Iterable[str], known: set[str], key: str) -> Problems:
    for text in texts:
        try:
            places = [
                (name, spec, conversion)
                for _, name, spec, conversion in string.Formatter().parse(text)
                if name is not None
            ]
        except ValueError:
            yield key, "has an unmatched brace", "places written {field}"
        for name, spec, conversion in places:
            if name not in known or spec or conversion:
                yield key, f"place {{{name}}} names no field", one_of(name, sorted(known))


_PARTS, _CLASSES = 30, 20
_SPAN = 10_000
_GUESSED = (
    "; where in its bin a label lies is guessed, and its mean and all that predicts it with that"
)
_ROWS = 1000
"""Sampled rows below which noise on their averages is large."""


def may_ask_clients(contract: Contract) -> bool:
    """Whether clients may report its rows one by one: that needs a public number of rows, or is
    stated.
    """
    is_counted = contract.privacy.neighbours == "replace-one"
    return is_counted or bool(contract.local) or contract.is_benchmark


def advice(contract: Contract) -> Iterator[str]:
    """One sentence on everything that usually buys noise, by the key that it is about."""
    for attribute in contract.attributes if may_ask_clients(contract) else ():
        if attribute.part_count > _PARTS:
            yield (
                f"columns.{attribute.column}: clients report one of {attribute.part_count} "
                f"values, of which randomised reports tell little; "
                f"expected at most {_PARTS} for local methods: put values together under `local`"
            )
    yield from _bins(contract, contract.numbers)
    if contract.target.kind == "classes" and contract.target.count > _CLASSES:
        yield (
            f"label: has {contract.target.count} classes, and noise enters the counts of each; "
            f"expected at most {_CLASSES}: put classes together with `parts` and `answers`"
        )
    rate = contract.privacy.sampling_rate
    population = contract.population
    if (
        population is not None
        and contract.releases.horizon is None
        and rate < 1
        and population * rate < _ROWS
    ):
        yield (
            f"privacy.sampling_rate: {rate} of about {population:,} rows leaves "
            f"{float(population * rate):,.0f}, whose averages are "
            f"mostly noise; expected 1, or a rate that leaves at least {_ROWS:,}"
        )


def label_bins(contract: Contract) -> str:
    """What to know of a label that is a number whose bins nobody states; empty elsewhere."""
    return "".join(
        _bins(contract, [name for name in contract.numbers if _is_counted(contract, name)])
    )


def _is_counted(contract: Contract, name: str) -> bool:
    """Whether it is the label, and all its numbers are predicted."""
    return name == contract.label_column and contract.target.kind == "number"


def _bins(contract: Contract, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        column = contract.numbers[name]
        if (
            not column.plain
            or column.bins is not None
            or contract.cuts_of(name)
            or name == contract.split_column
        ):
            continue
        low, high = column.bounds
        # How much greater a value can be than another that matters.
        span = high / low if low > 0 else low / high if high < 0 else high - low
        if (
            len(column.edges()) > 1
            and (span > _SPAN or (_is_counted(contract, name) and column.is_open()))
            and not (name == contract.label_column and contract.target.kind != "number")
        ):
            edges = [
                edge
                for edge in (10.0**power for power in range(-6, 16))
                if span > _SPAN and max(low, high / _SPAN) <= edge < high and edge > low
            ]
            such = (
                f", such as `bins: [{', '.join(f'{edge:.12g}' for edge in edges)}]`"
                if edges
                else " under `bins`"
            )
            is_chosen = (
                name in contract.open_numbers
                and contract.bins_are_chosen
                and contract.releases.horizon is None
            )
            what, where = (
                ("leave its bins to a part of epsilon that chooses them", "where most values lie")
                if is_chosen
                else ("make eight equal bins", "that most values lie in one of them")
            )
            yield (
                f"columns.{name}: bounds from {low:.12g} to {high:.12g} {what}; if it is publicly "
                f"known {where}, state edges between bins{such}"
                + _GUESSED
                * _is_counted(contract, name)
            )
