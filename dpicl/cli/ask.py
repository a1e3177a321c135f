"""`dpicl protect` and `dpicl synth`: one release of a table into a new file, and what it cost; or
with --dry-run what it would cost.

`dpicl ask`: private ensembles answer queries, each with its cost; released demonstrations answer
rows at no cost.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpicl.cli.budget import print_quotes, warn_of_caps
from dpicl.cli.terminal import counted, errors, note, say, waiting
from dpicl.contract.load import contract_digest
from dpicl.contract.parts import Target
from dpicl.contract.pipeline import Cell
from dpicl.data.conditions import Where
from dpicl.data.prompts import central_queries, local_queries
from dpicl.data.reading.encode import encode_queries
from dpicl.data.reading.queries import read_unlabelled
from dpicl.data.text_records import plain_text
from dpicl.ground.errors import DataError, DpiclError, ParameterError
from dpicl.ground.files import publish, write_text
from dpicl.ground.installed import extra_missing
from dpicl.ground.randomness import Draws
from dpicl.ground.records import read_bytes
from dpicl.ground.yaml_file import parse_yaml
from dpicl.home.accounts import one_ledger
from dpicl.home.settings import Settings
from dpicl.methods import DEFAULTS, METHODS, tabular_answers
from dpicl.methods.dp_icl import DpIcl
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.tabular_answers import constant, constant_sentence, masses
from dpicl.methods.tabular_method import TabularMethod
from dpicl.models.asking import AskedBy
from dpicl.models.requests import Tallying, prompt
from dpicl.models.spec import ModelSpec, prompts_of, score_prompts
from dpicl.quality.worth import ReleasePoint
from dpicl.release.card import CARD, CROISSANT, card_files, check_card
from dpicl.release.certificate_files import certificate_of, is_certified
from dpicl.release.demonstrations import FORMS
from dpicl.release.door import quote_of, release_of
from dpicl.release.names import accounts_of
from dpicl.release.pipelines import model_named
from dpicl.release.query_session import EnsembleRequest, QuerySession
from dpicl.release.readers import reader_of, settled_model
from dpicl.release.release import (
    TABLE_FORMS,
    Release,
    check_has_quality,
    check_has_rows,
    check_where,
)
from dpicl.release.releases import AccountQuote, check_quotes
from dpicl.release.request import ReleaseRequest
from dpicl.release.texts import TEXTUAL

if TYPE_CHECKING:
    from dpicl.quality.shown import Shown


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def without_pandas() -> None:
    """Keep Arrow from importing pandas in this process, which takes a quarter of the time and
    memory of a release.

    Arrow looks for it once: at the first value from Python, which might be one of pandas.
    """
    if "pandas" not in sys.modules:
        finder = _NoPandas()
        sys.meta_path.insert(0, finder)
        pa.array([])
        sys.meta_path.remove(finder)


@dataclass(frozen=True)
class Files:
    """What a release is written to: new files.

    Attributes:
        form: of demonstrations, or of a table of `rows` rows.
        where: by column what all rows have, as it was typed.
        quality: for a page on how good the release is.
        plot: for a picture of its columns.
        card: whether a dataset card and a Croissant file are written beside it.
    """

    out: Path | None
    form: str
    rows: int | None = None
    where: tuple[str, ...] = ()
    quality: Path | None = None
    plot: Path | None = None
    card: bool = False

    @property
    def new(self) -> list[Path]:
        """All of them."""
        cards = card_files(self.out) if self.card and self.out else ()
        return [path for path in (self.out, self.quality, self.plot, *cards) if path is not None]


_PICTURES = (".png", ".svg", ".pdf")


def release_to_file(request: ReleaseRequest, files: Files) -> None:
    """Release into new files, and print what it costs.

    Raises:
        DpiclError: a name or value breaks a rule, the budget does not allow it, or the file exists
            or cannot be written.
        StageFailed: something unforeseen; the same command resumes without another charge.
    """
    out = files.out
    assert out is not None
    settings = Settings.from_environment()
    where = _checked(files, request, settings)
    again = "unchanged: " if out.exists() else ""
    left = {path for path in files.new if path != out and path.exists()}
    with one_ledger(settings):
        if os.path.lexists(certificate_of(out)):
            _check_charged(out, quote_of(request, settings))
        with waiting("releasing"):
            release = release_of(request, settings)
        with warnings.catch_warnings(record=True) as noted, waiting(f"writing {out.name}"):
            what = release.write(out, files.form, files.rows, where)
        note(*dict.fromkeys(str(one.message) for one in noted), to=errors)
        with waiting("working out what the release is worth"):
            told = (*release.worth, release.statement, *release.spent, *release.caveats)
        note(f"{out.name}: {again}{what}", *dict.fromkeys(told))
        if files.card and card_files(out)[0] not in left:
            release.card(out)
            note(f"{CARD}, {CROISSANT}: licence and publisher are left to fill in")
        if files.quality is not None and files.quality not in left:
            from dpicl.report.quality import quality_page

            found = release.quality()
            with waiting("drawing its columns"):
                page = quality_page(found, _columns(release))
            write_text(files.quality, page)
            note(str(found))
        if files.plot is not None and files.plot not in left:
            picture, form = release.plot(), files.plot.suffix.removeprefix(".")
            publish(files.plot, lambda file: picture.savefig(file, dpi=144, format=form))
        if left:
            names = ", ".join(sorted(path.name for path in left))
            note(f"{names}: left as {'it stands' if len(left) == 1 else 'they stand'}")
        warn_of_caps(accounts_of([(request.dataset, release.method)], settings), settings)


def _check_charged(out: Path, quotes: Sequence[AccountQuote]) -> None:
    """A certificate that stands there is of the same release, which was charged: by a command that
    is repeated, or was killed before its file.
    """
    if any(line.releases > line.charged_before for line in quotes):
        raise ParameterError(
            "out",
            certificate_of(out).name,
            "a new file; the certificate of another release stands there",
        )


def _columns(release: Release) -> list[Shown]:
    """Released columns with their errors, where there are any."""
    from dpicl.quality.shown import shown  # only where a page is wanted

    method = METHODS[release.method]
    if not isinstance(method, TabularMethod) or not method.derive_stage:
        return []
    point = ReleasePoint(release.contract, method, release.published.planned.point)
    return shown(point, release.published.drawn, None, _PAIRS, _SIMULATIONS)


_PAIRS, _SIMULATIONS = 3, 10
"""Of the picture on a page of quality."""


def print_price(request: ReleaseRequest, files: Files, *, as_json: bool) -> None:
    """What `release_to_file` would charge, by account; it refuses the same, spends nothing and
    reads no row.

    Raises:
        DpiclError: as `release_to_file`; where a cap refuses it, after the price.
    """
    settings = Settings.from_environment()
    _checked(files, request, settings)
    with waiting("working out the price"):
        quotes = quote_of(request, settings)
        if files.out is not None and os.path.lexists(certificate_of(files.out)):
            _check_charged(files.out, quotes)
    print_quotes(quotes, as_json=as_json)
    check_quotes(quotes)


def _checked(files: Files, request: ReleaseRequest, settings: Settings) -> Where | None:
    """The condition on rows; the form exists, the method has all that is asked of its release, and
    files can be made in these places.
    """
    form, method = files.form, request.method
    if form not in (*FORMS, *TABLE_FORMS):
        raise ParameterError("as", form, f"one of {', '.join((*FORMS, *TABLE_FORMS))}")
    if files.card and files.out is not None:
        check_card(files.out, form)
    if form in TABLE_FORMS and method is not None and method not in TEXTUAL:
        check_has_rows(method)
    if files.quality is not None or files.plot is not None:
        check_has_quality(settings.declared(request.dataset), method)
    if files.plot is not None:
        if files.plot.suffix not in _PICTURES:
            raise ParameterError("plot", files.plot.name, f"a name in {', '.join(_PICTURES)}")
        if needed := extra_missing("matplotlib"):
            raise DpiclError(f"plot: {needed}")
    _check_new(files.new, settings, files.out)
    if not files.where:
        return None
    where = typed_where(files.where)
    if usual := method or DEFAULTS.get(request.trust):
        check_where(settings.declared(request.dataset), usual, where)
    return where


def _check_new(paths: Sequence[Path], settings: Settings, out: Path | None) -> None:
    """Refuse a place where no file can be made, before anything is charged: a certificate alone is
    what a killed command may leave, which this one completes. A file with its certificate may be
    that of the same command, which is seen when its bytes are made again; what stands beside it is
    left as it is, as a card that was filled in.
    """
    repeated = out is not None and out.is_file() and is_certified(out, settings)
    for path in paths:
        if repeated and path.is_file():
            continue
        try:
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            with TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            folder = "" if path.parent.is_dir() else f"{path.parent}: "
            expected = f"a new file in a folder that can be written ({folder}{error.strerror})"
            raise ParameterError("out", path.name, expected) from None


def typed_where(typed: Sequence[str]) -> dict[str, Any]:
    """A condition on rows, of `city=north|east`, `age=18..30` and, for a missing value, `age=`."""
    where: dict[str, Any] = {}
    for part in typed:
        name, equals, value = part.partition("=")
        if not name or not equals:
            raise ParameterError("where", part[:60], "NAME=VALUE")
        low, dots, high = value.partition("..")
        where[name] = (
            (low or None, high or None) if dots else [one or None for one in value.split("|")]
        )
    return where


def chosen_options(options: Sequence[str]) -> dict[str, Any]:
    """Options of a method, each a value as pipelines.yaml would have it: a word, a number, or a
    list in brackets.
    """
    chosen = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not name or not equals:
            raise ParameterError("option", option[:60], "NAME=VALUE")
        chosen[name.strip()] = parse_yaml(value.encode(), f"option {name.strip()[:40]}")
    return chosen


LEAST_MASS = 0.1
"""Of a model's probability, below which the labels mean little to it."""
ROWS_AT_ONCE = 256
"""Rows that the model answers before their answers are printed."""


def read_queries(query: str | None, file: str | None) -> list[str]:
    """The query given, or every line of a file, `-` for standard input.

    Raises:
        ParameterError: there is none, or the file cannot be read.
    """
    if (query is None) == (file is None):
        expected = "a query, or --queries FILE with one query a line, `-` for standard input"
        raise ParameterError("query", "both" if query else "none", expected)
    try:
        text = query or (sys.stdin.read() if file == "-" else Path(str(file)).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(
            "queries", str(file), f"a text file that can be read ({type(error).__name__})"
        ) from None
    queries = [plain_text(line) for line in text.splitlines() if line.strip()]
    if not queries:
        raise ParameterError("query", "nothing", "at least one query that is not empty")
    return queries


def answer_queries(
    request: EnsembleRequest, queries: Sequence[str], settings: Settings, *, again: bool
) -> None:
    """Print answers one a line, and the cost of each on standard error."""
    warn_of_caps(accounts_of([(request.contract.name, DpIcl.name)], settings), settings, errors)
    note_asked(request.model, request.asked)
    given: Counter[str] = Counter()
    answers = QuerySession(request, settings, again=again).answer(queries)
    # the model is opened and checked before the first answer, which takes longest
    with counted(f"opening and checking {request.model.name}, and answering", "queries"):
        first = list(islice(answers, 1))
    for answered in chain(first, answers):
        say(answered.answer)
        given[answered.answer] += 1
        alone = answered.per_query
        whole = answered.whole
        count = answered.queries
        cost = "answered before, nothing charged"
        if not answered.repeated:
            cost = (
                f"({alone.epsilon:.3g}, {alone.delta:.2g})-DP alone; all {count} together "
                f"({whole.epsilon:.4g}, {whole.delta:.2g})-DP, "
                f"charged {'now' if answered.charged else 'before'}"
            )
        note(f"query {answered.number} of {count}: {cost}", to=errors)
    if request.contract.is_classification:
        note_constant(given)


def note_asked(spec: ModelSpec, asked: AskedBy | None) -> None:
    """Say how a model is asked, where that was decided on public questions."""
    if asked is not None:
        note(f"{spec.name} is {asked.sentence}", to=errors)


def note_constant(given: Counter[str]) -> None:
    """Say that answers are constant; which of them are right nobody knows here."""
    if (label := constant(given)) is not None:
        note(f"warning: {constant_sentence(given, label)}", to=errors)


@dataclass(frozen=True)
class DemonstrationFile:
    """A file of `dpicl protect`: the contract, the method, the cell of its epsilon, and the texts
    with their answers.
    """

    contract: str
    contract_sha256: str
    method: str
    cell: Cell
    texts: tuple[str, ...]


def read_demonstrations(path: Path) -> DemonstrationFile:
    """Read a file of `dpicl protect`.

    Raises:
        DataError: it is not one; names the file and the count of lines, never a text.
    """
    try:
        lines = [
            json.loads(line.decode("utf-8"))
            for line in read_bytes(path).split(b"\n")
            if line.strip()
        ]
        origins = {
            (line["contract"], line["contract_sha256"], line["method"], float(line["epsilon"]))
            for line in lines
        }
        texts = tuple(f"{line['text']} {line['answer']}" for line in lines)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(path.name, "is no file of `dpicl protect --as jsonl`") from None
    if len(origins) != 1:
        raise DataError(
            path.name,
            "holds demonstrations of several contracts or methods, or none; expected one",
            count=len(origins),
        )
    ((contract, digest, method, epsilon),) = origins
    return DemonstrationFile(
        str(contract), str(digest), str(method), Cell("icl", epsilon, len(texts)), texts
    )


def drawn(shown: DemonstrationFile, shots: int | None, draws: int) -> list[tuple[str, ...]]:
    """So many draws of so many demonstrations, each the same for all queries, or all of them once
    where no number is given.

    Raises:
        ParameterError: there are not as many, or all draws would be the same.
    """
    held = len(shown.texts)
    if shots is None and draws == 1:
        return [shown.texts]
    if shots is None or (draws > 1 and shots >= held) or shots > held:
        raise ParameterError(
            "shots",
            shots,
            f"a number {'under' if draws > 1 else 'up to'} {held}, as many demonstrations as the "
            f"file holds",
        )
    streams = Draws(0, shown.contract, simulated=False)
    chances = (
        streams.public("ask", replace(shown.cell, shots=shots, draw=number).key).generator()
        for number in range(1, draws + 1)
    )
    return [
        tuple(shown.texts[place] for place in chance.choice(held, shots, replace=False))
        for chance in chances
    ]


def answer_rows(
    demos: Path,
    queries: str,
    model: str,
    settings: Settings,
    *,
    shots: int | None = None,
    draws: int = 1,
) -> None:
    """Print an answer for every row as it comes, one JSON object a line; warnings and token counts
    go to standard error.

    Args:
        queries: a file of rows, CSV or `.jsonl`, with the contract's features; `-` is CSV on
            standard input.
        shots, draws: of the file's demonstrations; of several draws the mean probabilities answer.

    Raises:
        DpiclError: a file, name or row breaks a rule, or the model cannot answer.
    """
    shown = read_demonstrations(demos)
    contract = settings.contract(shown.contract)
    if contract_digest(contract) != shown.contract_sha256:
        raise DataError(
            demos.name,
            f"is of another version of contract {contract.name}; expected demonstrations of the "
            f"present one",
        )
    if contract.label is None:
        raise DataError(
            demos.name,
            f"is of contract {contract.name}, which has no label; expected one that says what to "
            f"answer",
        )
    spec, asked = settled_model(model_named(model, settings), settings)
    rows, name = (
        (sys.stdin.buffer.read(), "standard input")
        if queries == "-"
        else (read_bytes(Path(queries)), Path(queries).name)
    )
    table = read_unlabelled(rows, contract, name)
    is_local = shown.method == LdpTabicl.name
    texts = (
        local_queries(encode_queries(table, contract), contract)
        if is_local
        else central_queries(table, contract)
    )
    chosen = drawn(shown, shots, draws)
    if spec.trust != "local":
        note(
            f"the queried rows are sent to {spec.name} as they are: queries are not protected",
            to=errors,
        )
    with counted(f"opening and checking {spec.name}", "models"):
        scorer = reader_of(spec, settings)
    note_asked(spec, asked)
    choices = tabular_answers.continuations_of(contract)
    given = Counter[str]()
    outcomes = Counter[str]()
    mass = 0.0
    for start in range(0, len(texts), ROWS_AT_ONCE):
        batches = [
            [prompt(some, text) for text in texts[start : start + ROWS_AT_ONCE]] for some in chosen
        ]
        with counted(f"asking {spec.name}", "rows") as count:
            count.update(start, len(texts))
            scores = [
                score_prompts(scorer, prompts_of(batch, contract, shown.cell), choices)
                for batch in batches
            ]
        batch = [text for some in batches for text in some]
        answered = scores[0] if len(scores) == 1 else tabular_answers.mean_of_draws(scores)
        shown_answers = answers_of(answered, contract.target)
        say(*map(json.dumps, shown_answers))
        given.update(answer["answer"] for answer in shown_answers if answer["answer"] is not None)
        mass += sum(masses(table).sum() / len(scores) for table in scores)
        if isinstance(scorer, Tallying):
            tally = scorer.tally(batch, choices)
            outcomes.update(tally)
            note(json.dumps(tally), to=errors)
    if spec.of_kind.has_mass(outcomes):
        note(mass_told(mass / len(texts)), to=errors)
    note_constant(given)


def mass_told(mass: float) -> str:
    """What the mean probability of all labels together means for their shares."""
    if mass < LEAST_MASS:
        return (
            f"warning: the model hardly knows these labels ({mass:.2f} of its probability, on "
            "average over queries): do not use the answers"
        )
    return f"the model gave {mass:.2f} of its probability to the labels, on average over queries"


def answers_of(scores: np.ndarray, target: Target) -> list[dict[str, Any]]:
    """The likeliest answer and its share, of No and Yes that of Yes; a tie, as for a prompt that a
    server declined, has no answer.

    Args:
        scores: log-probabilities of all answers, shape (rows, answers).
    """
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = odds / odds.sum(axis=1, keepdims=True)
    shown = []
    for row in shares:
        best = np.flatnonzero(row == row.max())
        share = (
            {"yes": round(float(row[1]), 4)}
            if target.kind == "binary"
            else {"share": round(float(row.max()), 4)}
        )
        shown.append({"answer": target.answers[best[0]] if len(best) == 1 else None, **share})
    return shown
