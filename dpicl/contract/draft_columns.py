"""Columns of a draft as the rows have them: a look at private data, which `Draft.looked` states."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.columns.base import MISSING
from dpicl.contract.columns.category import BOOLEANS, FALSE, MOST_CATEGORIES, TRUE, written_type
from dpicl.contract.columns.date import moment
from dpicl.contract.draft import UNNAMED, DraftColumn, can_be_named, tidy
from dpicl.ground.errors import ParameterError

_FEW, _ROWS_EACH, _SINGLE = 20, 4, 0.05
"""More than a few categories are a list only if they have this many rows each, and few rows a value
of their own: else they are names.
"""
_CLASSES = 10
"""A label of at most this many whole numbers is one of classes."""
_NARROW = 1e-5
"""Answers have six decimals at most."""
_WHOLE, _NUMBER = r"^-?\d+(\.0+)?$", r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_CODE = r"^-?0\d"
"""Digits that are no number: a postcode, say, or a number to call."""
_LEADING_ZEROS = (
    "digits with leading zeros, which a number would lose, as postcodes and numbers to call have "
    "them; a category, if all can be listed"
)
_CODE_NAME = re.compile(
    r"(.*[\W_])?(zip|post(al)?|plz|(tele|cell)?phone|telefon|telefono|tel|contact|mobile|handy|fax|fips|ssn|isbn|ean|gtin|upc|npi|card|imei)[\W_]?(code|nr|no|num|number)?\d*",
    re.IGNORECASE,
)
_CODES = (
    "digits that are no number by its name, but a postcode, a number to call or the like; a "
    "category, if all can be listed"
)
_DATE, _COMPACT_DATE, _DAY = r"^\d{4}-\d\d-\d\d", r"^(1[89]|20)\d{6}$", 86_400
_MARKERS = (
    "NA",
    "N/A",
    "n/a",
    "na",
    "NaN",
    "nan",
    "NULL",
    "null",
    "None",
    "none",
    "?",
    "-",
    "--",
    ".",
    "#N/A",
    "missing",
    "unknown",
)
"""Words that stand for a missing number or date."""
DATES_OTHERWISE = "dates that are not written as 2026-11-25"
NUMBERS_OTHERWISE = "numbers that are not written as 1234.5, without a unit"
"""Why a column is left out that may be one: how to have it all the same, `ways` says."""
_LOOKS_LIKE = (
    (
        r"^(\d{1,2}|\d{4})[./ -]\d{1,2}[./ -](\d{1,2}|\d{4})\b",
        DATES_OTHERWISE,
    ),
    (
        r"^\W{0,3}\d[\d.,' ]*\W?[A-Za-z]{0,3}$",
        NUMBERS_OTHERWISE,
    ),
)
"""{pattern of every value: what else it may be}."""
_GROUPED = r"\d[.,'’\s\x{a0}]\d{3}[.,'’\s\x{a0}]\d|\d['’\s\x{a0}]\d{3}(\D|$)"
_THOUSANDS = (
    "numbers whose thousands are separated, as in 1.234,50; export them without, or write the "
    "column down with `invalid: missing`"
)
"""Of numbers some of which have such a mark."""
_MOST_WORDS, _WORD = 3, re.compile(r"[^\d]{1,12}")
"""Among numbers: so many words may stand for a missing one, and what each of them looks like."""
_TEXT = f"free text, names or more than {MOST_CATEGORIES} categories"
_WHOSE = "one value per person? then `unit: person` and `person: {id_column: …, max_rows: …}`"
_GROUPS = "; where all of them can be listed, `groups: {CODE: GROUP}` puts codes together"
_ID = re.compile(r"(.*[\W_])?(id|uuid|index|row|nr|no)", re.IGNORECASE)
_HUMP = r"(?<=[a-z])(?=[A-Z])"
"""Between the words of a name such as ZipCode."""
_LEAST_IDS = 20
_WHO = "patient|person|people|customer|client|subject|participant|respondent|user|member|employee|student|pupil|resident|donor|guest|household|account"  # noqa: E501
_COUNTED = (
    "applicant|borrower|candidate|case|child|citizen|driver|insured|mother|owner|passenger|player|policyholder|staff|subscriber|taxpayer|tenant"
    "|visitor|voter|worker|acct|cust|emp|pat|pers|stud|subj|usr"
)
"""Who is as often counted in a column of that name: it has to say that it is a key."""
_KEY = "id|uuid|key|code|ref|nr|no|number|num"
_WHO_ELSEWHERE = (
    # German, French, Spanish, Dutch; without accents
    "kunde|kundin|patient|patientin|mitglied|teilnehmer|versichert|proband|schuler|schueler|nutzer|benutzer"
    "|mitarbeiter|bewohner|spender|haushalt|konto|konten"
    "|cliente|patiente|personne|utilisateur|utilisatrice|membre|etudiant|eleve|donneur|menage|adherent"
    "|paciente|persona|usuario|usuaria|miembro|socio|empleado|estudiante|alumno|residente|donante|hogar|participante"
    "|klant|persoon|gebruiker|medewerker|werknemer|leerling|bewoner|donateur|huishouden|deelnemer"
)
_COUNTED_ELSEWHERE = (
    "gast|fall|burger|personal|employe|salarie|compte|assure|abonne|sujet|cuenta|caso|sujeto"
    "|ciudadano|lid|rekening"
)
_KEY_ELSEWHERE = rf"{_KEY}|nummer|kennung|kennziffer|numero|codigo|clave|identifiant|identificador"
_END = "(innen|nen|en|er|es|e|n|r|s)?"
_OF = r"[\W_]*((de|du|del|des|van)[\W_]+)?"
_PERSON_ID = re.compile(
    rf"({_WHO})s?([\W_]*({_KEY}))?|({_COUNTED})[\W_]*({_KEY})|(id|key|code|ref)[\W_]*({_WHO}|{_COUNTED})"
    r"|(pid|mrn|ssn|nhs|uid|userid|u?subjid|seqn|id|uuid)([\W_]*(nr|no|number))?"
    r"|(.*[\W_])?(e[\W_]?mail([\W_]?address)?|user[\W_]?name|login)"
    rf"|({_WHO_ELSEWHERE}){_END}([\W_]*({_KEY_ELSEWHERE}))?"
    rf"|({_COUNTED_ELSEWHERE}){_END}[\W_]*({_KEY_ELSEWHERE})"
    rf"|({_WHO})[\W_]*({_KEY_ELSEWHERE})"
    # numbers of customers are an amount: "num_customers", and numero_clientes
    rf"|(id|code|ref|numero|codigo|clave|identifiant|identificador){_OF}({_WHO}|{_WHO_ELSEWHERE}|{_COUNTED_ELSEWHERE})",
    re.IGNORECASE,
)
_WHOM = re.compile(rf"({_WHO})s?|({_WHO_ELSEWHERE}){_END}", re.IGNORECASE)
"""Whose column may as well say how many they are."""
_OTHER_ID = re.compile(r"(.*[\W_])?(id|uuid)", re.IGNORECASE)
"""Who or what, whose numbers are no amounts."""
_NO_AMOUNT = "numbers that are names of something; a category, if all can be listed"
_MOST_ROWS = 10
"""Of a person that a draft proposes: a release costs that many times what one row does."""


def columns_of_rows(
    table: pa.Table,
    label: str | None,
    positive: bool,
    where: str,
    ways: Mapping[str, str],
    *,
    has_person: bool = False,
) -> tuple[list[DraftColumn], dict[str, str]]:
    """Columns that a contract can describe, in their order, and {column that it leaves out: why}.

    Args:
        table: every column as text, empty where there is no value: shape (rows, columns).
        label: the column to predict, if one is.
        positive: whether some of its values count as Yes, so that it is one of categories.
        where: the file's name, for messages.
        ways: {why a column is left out: what to do about it}, where something is.
        has_person: whether another column says whom a row is about.

    Raises:
        ParameterError: there is no such label, or a contract cannot describe it.
    """
    if label is not None and label not in table.column_names:
        raise ParameterError("label", label, f"one of the {table.num_columns} columns of {where}")
    described, ignored = [], {}
    for name in table.column_names:
        look = (
            _label(table.column(name), name, positive)
            if name == label
            else _draft_rows_column(table.column(name), name)
        )
        if isinstance(look, DraftColumn):
            described.append(look)
            continue
        is_asked = not has_person and look.startswith(_TEXT) and _repeats(table.column(name))
        why = "; ".join(filter(None, [look, ways.get(look), _WHOSE * is_asked]))
        if name == label:
            raise ParameterError("label", label, f"another column; this one has {why}")
        ignored[name] = why
    return described, ignored


def person_of_rows(table: pa.Table, label: str | None) -> tuple[str, int] | None:
    """The column that seems to say whom a row is about, several rows about one, and how many rows
    of a person to let in: as many as half of the persons have at most.

    Args:
        table: as `columns_of_rows` takes it.
        label: the column to predict, if one is.
    """
    found = []
    for name in table.column_names:
        filled = table.column(name).filter(pc.not_equal(table.column(name), ""))
        is_person = _PERSON_ID.fullmatch(_words(name)) is not None
        if name == label or not can_be_named(name) or not (is_person or _ID.fullmatch(name)):
            continue
        counts = pc.value_counts(filled.combine_chunks()).field("counts").to_numpy()
        if len(counts) == len(filled) or len(counts) < (
            _LEAST_IDS if is_person else MOST_CATEGORIES + 1
        ):
            continue  # a row each, or a few of a kind
        found.append((not is_person, name, min(_MOST_ROWS, max(2, int(np.median(counts))))))
    return min(found, key=lambda column: column[0])[1:] if found else None


def _words(name: str) -> str:
    """A column's name as patterns take it: words apart, without accents and what is no letter
    around them.
    """
    plain = unicodedata.normalize("NFKD", re.sub(_HUMP, "_", name))
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return re.sub(r"^[\W_]+|[\W_]+$", "", letters)


def missing_marker(table: pa.Table) -> str | None:
    """The word that most often stands among numbers or dates for a missing one; None if there is
    none.

    Args:
        table: every column as text: shape (rows, columns).
    """
    words: Counter[str] = Counter()
    for values in table.columns:
        filled = pc.unique(values.filter(pc.not_equal(values, "")))
        others = filled.filter(pc.invert(pc.match_substring_regex(filled, f"{_NUMBER}|{_DATE}")))
        if len(others) == 1 < len(filled) and (word := others[0].as_py()) in _MARKERS:
            words[word] += 1
    return words.most_common(1)[0][0] if words else None


def _repeats(values: pa.ChunkedArray) -> bool:
    """Whether most rows share their value with another, as rows of a person do."""
    filled = values.filter(pc.not_equal(values, ""))
    counts = pc.value_counts(filled.combine_chunks()).field("counts").to_numpy()
    return len(counts) >= _LEAST_IDS and bool(2 * counts[counts > 1].sum() > len(filled))


def _draft_rows_column(
    values: pa.ChunkedArray, name: str, *, predicted: bool = False
) -> DraftColumn | str:
    """What it holds; as text, why a contract cannot describe it. A column to predict may be of a
    value for every row.
    """
    if not can_be_named(name):
        return UNNAMED
    filled = values.filter(pc.not_equal(values, ""))
    if not len(filled):
        return "no value in any row"
    nullable = len(filled) < len(values)
    if not nullable and len(pc.unique(filled)) == 1:
        return "the same value in every row"
    if _all(filled, _WHOLE) and not predicted and len(filled) >= _LEAST_IDS:
        numbers = pc.cast(filled, pa.float64()).to_numpy()
        follow = numbers.max() - numbers.min() < len(numbers)
        if len(np.unique(numbers)) == len(numbers) and (follow or _ID.fullmatch(name)):
            return "a whole number of its own in every row, as an identifier has"
    if _all(filled, _COMPACT_DATE) and (days := _date(filled, name, nullable)):
        return days
    listed = _categories(filled, name, nullable)
    if pc.any(pc.match_substring_regex(filled, _CODE)).as_py() and _all(filled, _NUMBER):
        return listed if isinstance(listed, DraftColumn) else _LEADING_ZEROS
    words, is_whole = _words(name), _all(filled, _WHOLE)
    if _CODE_NAME.fullmatch(words) and is_whole:
        return listed if isinstance(listed, DraftColumn) else _CODES
    is_person = _PERSON_ID.fullmatch(words) and not _WHOM.fullmatch(words)
    is_key = _OTHER_ID.fullmatch(words) or is_person
    if is_key and is_whole and not predicted:
        return listed if isinstance(listed, DraftColumn) else _NO_AMOUNT
    numbers, missing = _without_words(filled, _NUMBER)
    number = _number(numbers, name, nullable, missing) if _all(numbers, _NUMBER) else None
    return number or (_date(filled, name, nullable) if _all(filled, _DATE) else None) or listed


def _label(values: pa.ChunkedArray, name: str, positive: bool) -> DraftColumn | str:
    """As `_draft_rows_column`, by its values where these are few or some of them count as Yes."""
    filled = values.filter(pc.not_equal(values, ""))
    count = len(pc.unique(filled))
    if (
        can_be_named(name)
        and count > 1
        and (positive or (count <= _CLASSES and _all(filled, _WHOLE)))
    ):
        return _categories(filled, name, len(filled) < len(values), every=True)
    look = _draft_rows_column(values, name, predicted=True)
    if (
        isinstance(look, DraftColumn)
        and look.type == "real"
        and float(look.bounds[1] or 0) - float(look.bounds[0] or 0) < _NARROW
    ):
        return "numbers that differ from the sixth decimal on; write them in a smaller unit"
    return look


def _without_words(
    filled: pa.ChunkedArray, pattern: str
) -> tuple[pa.ChunkedArray, tuple[str, ...]]:
    """Values of a pattern, and the few short words among them that seem to mean a missing one; all
    values where these are no such words. A word that stands once and is not known for that may be
    the value of one row.
    """
    unique = pc.unique(filled)
    others = unique.filter(pc.invert(pc.match_substring_regex(unique, pattern)))
    if not 0 < len(others) <= most_words(len(unique) - len(others)):
        return filled, ()
    words = tuple(sorted(others.to_pylist()))
    if not all(
        word in _MARKERS or (_WORD.fullmatch(word) and pc.sum(pc.equal(filled, word)).as_py() > 1)
        for word in words
    ):
        return filled, ()
    return filled.filter(pc.invert(pc.is_in(filled, others))), words


def most_words(numbers: int) -> int:
    """How many words may stand for a missing value among so many different numbers: none among a
    few, which are categories with these.
    """
    return _MOST_WORDS if numbers > _FEW else 0


def _number(
    filled: pa.ChunkedArray, name: str, nullable: bool, missing: tuple[str, ...]
) -> DraftColumn | str | None:
    """Numbers; None of a single one, which is a category."""
    numbers = pc.cast(filled, pa.float64()).to_numpy()
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        return None
    # bounds to one digit of their width, beyond the rows
    step = 10.0 ** math.floor(math.log10(high - low))
    bounds = tidy(math.floor(low / step) * step), tidy(math.ceil(high / step) * step)
    if max(map(abs, bounds)) > 2**53:
        return "numbers that doubles cannot tell apart"
    kind = "integer" if _all(filled, _WHOLE) else "real"
    return DraftColumn(name, kind, bounds, nullable=nullable or bool(missing), missing=missing)


def _date(filled: pa.ChunkedArray, name: str, nullable: bool) -> DraftColumn | None:
    """Days, or times of days, within whole years; None of what is written otherwise."""
    try:
        seconds = [moment(value, "datetime") for value in pc.unique(filled).to_pylist()]
    except ValueError:
        return None
    kind = "datetime" if any(second % _DAY for second in seconds) else "date"
    low, high = (
        date(1970, 1, 1) + timedelta(days=second // _DAY) for second in (min(seconds), max(seconds))
    )
    last = (
        date(high.year + 1, 1, 1)
        if kind == "datetime" and high.year < date.max.year
        else date(high.year, 12, 31)
    )
    return DraftColumn(
        name, kind, (date(low.year, 1, 1).isoformat(), last.isoformat()), nullable=nullable
    )


def _categories(
    filled: pa.ChunkedArray, name: str, nullable: bool, *, every: bool = False
) -> DraftColumn | str:
    """A list of values, or what makes them none; `every` value is of the list unless there are too
    many.
    """
    counted = pc.value_counts(filled.combine_chunks())
    counts = counted.field("counts").to_numpy()
    categories = sorted(set(counted.field("values").to_pylist()) - {MISSING})
    nullable = nullable or len(categories) < len(counts)
    if any(len(category) > 200 for category in categories):
        return "texts of more than 200 letters"
    listed = len(categories) <= _FEW or (
        len(filled) >= _ROWS_EACH * len(counts) and (counts == 1).sum() <= _SINGLE * len(filled)
    )
    if len(categories) + nullable > MOST_CATEGORIES or not (
        every or (listed and 2 * len(counts) <= len(filled))
    ):
        dates, numbers = (
            meaning if _all(_without_words(filled, pattern)[0], pattern) else ""
            for pattern, meaning in _LOOKS_LIKE
        )
        if numbers and pc.any(pc.match_substring_regex(filled, _GROUPED)).as_py():
            numbers = _THOUSANDS
        return dates or numbers or _TEXT + _GROUPS * (len(categories) > MOST_CATEGORIES)
    if all(category in BOOLEANS and category.isalpha() for category in categories):
        return DraftColumn(name, "boolean", categories=(FALSE, TRUE), nullable=nullable)
    return DraftColumn(
        name,
        "category",
        categories=tuple(categories),
        value_type=written_type(categories),
        nullable=nullable,
    )


def _all(values: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py())
