"""What a file of a release is published with: a dataset card of Hugging Face, and a Croissant file
of ML Commons, both written beside it.

    README.md        front matter with the file and the types of its columns; then what is promised
    croissant.json   the same for programs: JSON-LD of Croissant 1.0

Neither states a licence, and Croissant wants an address and a creator too: they are the
publisher's, and left to fill in.

Guarantee   none spent: made of the file's certificate, its columns, and the public contract.
"""

from __future__ import annotations

import json
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import yaml

from dpicl.contract import Contract
from dpicl.contract.columns.base import MISSING
from dpicl.contract.columns.number import NumberColumn
from dpicl.contract.declared import Declared, Origin
from dpicl.contract.persons import person_rows
from dpicl.ground.errors import ParameterError, StandingFileError
from dpicl.ground.files import write_text
from dpicl.ground.nouns import many
from dpicl.methods import METHODS
from dpicl.quality.worth import Quality
from dpicl.release.certificate import Certificate, rounded
from dpicl.release.certificate_files import certificate_of, public_key, verify_file

if TYPE_CHECKING:
    from dpicl.release.release import Release

CARD, CROISSANT = "README.md", "croissant.json"
MEDIA = {
    ".csv": "text/csv",
    ".parquet": "application/x-parquet",
    ".jsonl": "application/jsonlines",
}
"""Files whose columns both can describe, by the end of their names."""
_TYPES = (
    (pa.types.is_boolean, "bool", "sc:Boolean"),
    (pa.types.is_integer, "int64", "sc:Integer"),
    (pa.types.is_floating, "float64", "sc:Float"),
    (pa.types.is_date, "date32", "sc:Date"),
    (pa.types.is_timestamp, "timestamp[s]", "sc:DateTime"),
)
_OF_JSON = {str: pa.string(), float: pa.float64()}
_FILL_IN = "# license: to fill in, a name of https://huggingface.co/docs/hub/repositories-licenses"


def card_files(path: Path) -> tuple[Path, Path]:
    """Where card and Croissant of a file are: beside it."""
    return path.with_name(CARD), path.with_name(CROISSANT)


def write_card(release: Release, out: Path) -> None:
    """Both, for a file that a release wrote.

    Raises:
        CertificateError: the file is not as it was written.
        ParameterError: there is no such file of this release, it has no columns, or other files
            stand there.
    """
    check_card(out, out.suffix.removeprefix("."))
    certificate = verify_file(out, key=public_key(release.published.settings))
    if certificate.evidence.release_id != release.certificate.evidence.release_id:
        raise ParameterError("card", out.name, "a file that this release wrote")
    columns = _json_columns(out) if out.suffix == ".jsonl" else release.arrow(1).schema
    rows = _row_count(out)
    card, croissant = card_files(out)
    stated = json.dumps(_croissant(certificate, columns), indent=1, ensure_ascii=False) + "\n"
    described = _card(certificate, columns, release, rows)
    for place, text in ((croissant, stated), (card, described)):
        write_text(place, text)
        if place.read_bytes() != text.encode():
            raise StandingFileError(place.name, f"write {out.name} into another folder")


def check_card(out: Path, form: str) -> None:
    """Refuse a file that has no columns, or not those that its name suggests, with a
    ParameterError.
    """
    if out.suffix not in MEDIA or out.suffix != f".{form}":
        raise ParameterError("card", out.name, f"a {', '.join(MEDIA)} file of the same form")


def _json_columns(out: Path) -> pa.Schema:
    """Of lines of text and answer; not of chats."""
    try:
        with out.open() as file:
            record = json.loads(file.readline())
        return pa.schema({name: _OF_JSON[type(value)] for name, value in record.items()})
    except (ValueError, AttributeError, KeyError):
        raise ParameterError("card", out.name, "lines of text and answer, of form jsonl") from None


def _row_count(out: Path) -> int:
    """Of the file: what was released has as many rows as somebody wanted."""
    if out.suffix == ".parquet":
        return int(pq.read_metadata(out).num_rows)
    content = out.read_bytes()
    if out.suffix == ".jsonl":
        return content.count(b"\n")
    with suppress(pa.ArrowInvalid):
        options = pa_csv.ParseOptions(newlines_in_values=True)
        return int(pa_csv.read_csv(BytesIO(content), parse_options=options).num_rows)
    return max(0, content.count(b"\n") - 1)


def _size(rows: int) -> str:
    """As Hugging Face names it: `1K<n<10K`."""
    ends = [(1_000, "1K"), (10_000, "10K"), (100_000, "100K"), (1_000_000, "1M"), (10**7, "10M")]
    below = "n"
    for end, name in ends:
        if rows < end:
            return f"{below}<{name}" if below == "n" else f"{below}<n<{name}"
        below = name
    return f"n>{below}"


def _meanings(contract: Declared) -> dict[str, str]:
    """By column, what its contract says that is possible."""
    if not isinstance(contract, Contract):
        return {}
    meant = {}
    for name, column in contract.columns.items():
        if isinstance(column, NumberColumn):
            said = " to ".join(map(column.text, column.bounds))
        else:
            values = [value for value in column.categories if value != MISSING]
            more = f", and {len(values) - _MOST_VALUES} more"
            said = ", ".join(values[:_MOST_VALUES]) + more * (len(values) > _MOST_VALUES)
        meant[name] = said + "; may be missing" * column.nullable
    if (label := contract.label) is not None:
        question = f"; the answer to: {label.question}" if label.question else "; what is predicted"
        meant[label.column] += question
    return meant


_OF_ALL = "Of all rows of the release, not of those on the condition alone."
_MOST_VALUES = 8
"""Categories that a card lists of a column."""


def _quality(release: Release, suffix: str) -> list[str]:
    """What rows of a release are worth, from the release alone; nothing of demonstrations."""
    if suffix == ".jsonl":
        return []
    try:
        quality = release.quality()
    except ParameterError:  # of averages, or of a series
        return []
    if isinstance(quality, Quality):
        return [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in quality.sentences()]
    return []


def _kinds(columns: pa.Schema) -> dict[str, tuple[str, str]]:
    """By column: its type for Hugging Face, and for Croissant."""
    kinds = {}
    for column in columns:
        found = ((hub, croissant) for is_of, hub, croissant in _TYPES if is_of(column.type))
        kinds[column.name] = next(found, ("string", "sc:Text"))
    return kinds


def _privacy(certificate: Certificate) -> dict[str, object]:
    loss = certificate.privacy_loss
    epsilon = loss.privacy_parameters.epsilon
    return {
        "unit": loss.privacy_unit,
        "neighbours": loss.neighbours,
        "epsilon": "infinite" if epsilon is None else rounded(epsilon),
        "delta": rounded(loss.privacy_parameters.delta),
        "method": certificate.implementation.method,
        "simulation": certificate.simulation,
        "release": certificate.evidence.release_id,
    }


def _croissant(certificate: Certificate, columns: pa.Schema) -> dict[str, Any]:
    product, file = certificate.product, certificate.product.file
    assert file is not None
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"rows/{quote(name, safe='')}",
            "name": name,
            "dataType": kind,
            "source": {"fileObject": {"@id": file.name}, "extract": {"column": name}},
        }
        for name, (_, kind) in _kinds(columns).items()
    ]
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": product.name,
        "description": " ".join(
            filter(None, [product.description, file.only_rows, certificate.certifies])
        ),
        "datePublished": product.publication_date,
        "rai:dataLimitations": list(certificate.not_covered),
        "rai:dataUseCases": product.intended_use,
        "rai:personalSensitiveInformation": certificate.privacy_loss.statement,
        **{f"dpicl:{name}": value for name, value in _privacy(certificate).items()},
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": file.name,
                "name": file.name,
                "contentUrl": file.name,
                "encodingFormat": MEDIA[Path(file.name).suffix],
                "sha256": file.sha256,
            }
        ],
        "recordSet": [{"@type": "cr:RecordSet", "@id": "rows", "name": "rows", "field": fields}],
    }


def _card(certificate: Certificate, columns: pa.Schema, release: Release, rows: int) -> str:
    contract = release.contract
    product, file = certificate.product, certificate.product.file
    assert file is not None
    kinds = _kinds(columns)
    front = {
        "pretty_name": product.name,
        "tags": ["differential-privacy", "synthetic", "croissant"],
        "size_categories": [_size(rows)],
        "configs": [{"config_name": "default", "data_files": file.name}],
        "dataset_info": {
            "features": [{"name": name, "dtype": hub} for name, (hub, _) in kinds.items()],
            "splits": [{"name": "train", "num_examples": rows}],
        },
    }
    meanings = _meanings(contract)
    quality = _quality(release, Path(file.name).suffix)
    of_persons = person_rows(contract, is_local=METHODS[release.method].trust == "local")
    accounting = certificate.accounting
    facts = {**_privacy(certificate), "account": accounting.account}
    return "\n".join(
        [
            f"---\n{_FILL_IN}",
            yaml.safe_dump(front, sort_keys=False, allow_unicode=True) + "---",
            f"# {product.name}\n",
            *([] if product.description == _UNSAID else [f"{product.description}\n"]),
            f"{many(rows, 'row')} of {many(len(kinds), 'column')}, made of a private release.\n",
            *([f"{_cell(file.only_rows)}\n"] if file.only_rows else []),
            *([f"{of_persons}\n"] if of_persons else []),
            f"> {certificate.certifies}\n",
            certificate.privacy_loss.statement + "\n",
            "| privacy | |\n| --- | --- |",
            *(f"| {name} | {value} |" for name, value in facts.items()),
            "\n| column | type | possible values |\n| --- | --- | --- |",
            *(
                f"| {_cell(name)} | {hub} | {_cell(meanings.get(name, ''))} |"
                for name, (hub, _) in kinds.items()
            ),
            *_relations(contract),
            *["\n## Quality\n"][: len(quality)],
            *([f"{_OF_ALL}\n"] if quality and file.only_rows else []),
            *(f"- {_cell(sentence)}" for sentence in quality),
            f"\n## Intended use\n\n{product.intended_use}\n",
            "## Not covered\n",
            *(f"- {sentence}" for sentence in certificate.not_covered),
            "\n## Licence\n",
            f"To fill in: `license` above; `license`, `url` and `creator` in {CROISSANT}.\n",
            f"Source: {product.data_source}, {_licence(contract.source.licence)}.",
            f"\n## Check\n\n`dpicl verify {file.name}`, with {certificate_of(Path(file.name))}.\n",
        ]
    )


def _relations(contract: Declared) -> list[str]:
    """What every row keeps, in a sentence, if there is anything."""
    if not isinstance(contract, Contract) or not contract.relations:
        return []
    kept = ", ".join(f"`{_cell(str(relation))}`" for relation in contract.relations)
    return [f"\nEvery row keeps the public rules {kept}."]


def _licence(of_source: str) -> str:
    """Of the rows that a release was made of."""
    if of_source == Origin.model_fields["licence"].default:
        return "which are not published and have no public licence"
    return f"whose licence is: {of_source}"


def _cell(text: str) -> str:
    """In a table of Markdown."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


_UNSAID = Declared.model_fields["description"].default


_TERMS = (
    "citeAs column equivalentProperty extract field fileProperty fileObject fileSet format "
    "includes isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated "
    "replace samplingRate separator source subField transform"
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "dpicl": "urn:dpicl:",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
"""The one that Croissant 1.0 states, and a name for what is ours."""
