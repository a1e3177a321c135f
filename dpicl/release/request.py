"""What is asked for: one release of a contract's rows, in public facts alone; and what is refused
of it before a row is read, by its contract, its period, and the model that reads.

Guarantee   none spent: nothing here is of a row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dpicl.contract import Contract, TextContract
from dpicl.contract.declared import Declared
from dpicl.contract.periods import ONCE, period_at, period_before
from dpicl.contract.pipeline import CommonOptions, Point
from dpicl.data.reading.queries import load_queries
from dpicl.data.reading.source import find_rows
from dpicl.ground.errors import ModelRefusedError, ParameterError, PrivacyError
from dpicl.home.settings import Settings
from dpicl.methods import METHODS, on_texts
from dpicl.methods.base import Method
from dpicl.methods.tabular_method import TabularMethod
from dpicl.quality.gate import check_noise
from dpicl.quality.worth import ReleasePoint
from dpicl.release.names import ReleaseFacts

if TYPE_CHECKING:
    from dpicl.models.spec import ModelSpec


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """One release, as a person, a program or a schedule asks for it.

    Attributes:
        dataset: the name of a contract.
        epsilon: of the release, in nats; `dpicl.contract.pipeline.read_epsilon` reads one that was
            typed.
        method: of `dpicl.methods`; the usual one of `trust`, or of texts, if None.
        trust: who sees true rows: `central`, a curator; `local`, the client alone.
        shots: how many demonstrations a method makes whose release depends on their number; of
            texts, how many texts.
        options: of the method, in place of its usual ones.
        period: where the contract releases again each month, say, another one than now; of a
            horizon, the last one of what is derived.
        anyway: of a table, make a release that would be little but noise at the stated number of
            rows.
        generator: of texts, the model that reads the private ones and writes; the release that
            stands if None.
        window: of a table with a horizon, how many periods the rows are of; all if None.
    """

    dataset: str
    epsilon: float
    method: str | None = None
    trust: str = "central"
    shots: int = 4
    options: Mapping[str, object] = field(default_factory=dict)
    period: str | None = None
    anyway: bool = False
    generator: str | None = None
    window: int | None = None


@dataclass(frozen=True)
class PlannedRelease:
    """What a request comes to: one release of this contract, method and period.

    Attributes:
        method: by its name.
        options: of all methods, as a pipeline would state them.
        shots: how many demonstrations are made of it where no number is given.
        point: what it is asked for besides its contract.
        writer: of texts, the model that reads the private ones and writes.
        anyway: as of the request.
    """

    contract: Declared
    method: str
    options: CommonOptions
    shots: int
    point: Point[Any]
    period: str = ONCE
    writer: ModelSpec | None = None
    anyway: bool = False

    @property
    def facts(self) -> ReleaseFacts:
        """What names it besides contract, method and point."""
        if self.writer is None:
            return ReleaseFacts(self.period)
        from dpicl.models.embedding import embedder_fingerprint
        from dpicl.release.readers import fingerprint

        return ReleaseFacts(self.period, fingerprint(self.writer), embedder_fingerprint(None))


def period_of(
    contract: Declared,
    chosen: str | None,
    at: datetime,
    methods: Sequence[str] = (),
    *,
    over: bool = False,
) -> str:
    """The period of a contract's releases: the chosen one, or what the contract says of a time.
    Where the `methods` count a horizon, or it must be `over`, it is the last that is over then.
    Raises ParameterError: some methods count a horizon and others do not, or it has no such period.
    """
    counting = [name for name in methods if METHODS[name].is_series(contract)]
    if not counting:
        return chosen or (period_before if over else period_at)(contract.releases.every, at)
    # it would release the period that is not over yet
    if other := next((name for name in methods if name not in counting), None):
        raise ParameterError(
            "methods",
            other,
            f"{', '.join(counting)} alone, which counts the horizon of {contract.name}; others in "
            f"another run",
        )
    calendar = contract.releases.calendar
    if chosen is not None:
        _ = calendar.index(chosen)
    return chosen or calendar.periods[max(1, calendar.over_by(at, contract.releases.every)) - 1]


def check_source(contract: Declared, settings: Settings) -> None:
    """Whether a contract's rows and public queries are at hand; reads no private row. Raises
    SourceError: they are not; DataError: the queries break the contract.
    """
    if isinstance(contract, TextContract):
        from dpicl.data.text_files import find_texts  # of a table it is not needed

        find_texts(contract, **settings.folders)
    elif isinstance(contract, Contract):
        find_rows(contract, **settings.folders)
        load_queries(contract, data_folder=settings.data)


def check_drawn(
    contract: Declared, method: Method, asked: Collection[Point[Any]], *, anyway: bool
) -> None:
    """Whether releases have a price, and are more than noise at the stated number of rows, unless
    they are made `anyway`. Raises DpiclError: not so.
    """
    for point in asked:
        method.cost(contract, point)
    if isinstance(contract, Contract) and isinstance(method, TabularMethod):
        check_noise((ReleasePoint(contract, method, point) for point in asked), anyway=anyway)


def check_window(contract: Declared, method: str, window: int | None) -> None:
    """Refuse a window of periods where no horizon is counted. Raises ParameterError: one is
    given.
    """
    if window is not None:
        expected = (
            f"no such option: {contract.name} has no horizon that {METHODS[method].title} counts"
        )
        raise ParameterError("window", window, expected)


def check_named(contract: Declared, option: str) -> None:
    """Refuse to spend budget on a default model, which nobody has chosen; benchmarks have none. The
    refusal says what to name.
    """
    if isinstance(contract, TextContract) and not contract.is_benchmark:
        raise ModelRefusedError(
            f"{contract.name}: no model is named, and the default one has random weights, on "
            f"which budget would be spent for nothing; "
            f"expected {option} NAME (`tiny` too, if it is meant)"
        )


def check_writer(contract: Declared, method: str, writer: ModelSpec) -> None:
    """Private texts are read by a model that may see them: votes on tokens in this process only,
    ensembles on a trusted server too. Raises ModelRefusedError: this one may not; PrivacyError: it
    counts in too few bits for texts that are not a benchmark's.
    """
    is_server = on_texts(method).votes_on_tokens and writer.of_kind.is_served
    if is_server or writer.trust != "local":
        fix = (
            "a local model as --generator, which may be another than the --model that answers"
            if on_texts(method).votes_on_tokens
            else "a model on this machine, or an entry of pipelines.yaml with `trust: local`"
        )
        raise ModelRefusedError(
            f"model {writer.name!r} is "
            f"{'a server' if writer.of_kind.is_served else 'not trusted with private rows'}, and "
            f"raw rows stay local; expected {fix}"
        )
    if writer.of_kind.is_served or contract.is_benchmark:
        return
    counts_in = writer.dtype if writer.dtype not in ("auto", "float32") else writer.number_format
    if counts_in != "float32":
        # voters are read in batches, and one prompt moves what rounding makes of the others: in
        # sixteen bits too far
        raise PrivacyError(
            f"{contract.name}: model {writer.name!r} has dtype {counts_in}, in which one private "
            "text moves the votes of others by rounding; expected dtype float32 for the model that "
            "reads them, or a contract with `benchmark: true`"
        )
