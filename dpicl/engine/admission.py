"""What is refused before a row is read, of every release: by its contract, its period, and the
model that reads it.

Guarantee   none spent: public facts decide, and whether a source is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from dpicl.contract import Contract, Declared, TextContract
from dpicl.contract.periods import period_at, period_before
from dpicl.engine.settings import Settings
from dpicl.errors import ModelRefusedError, ParameterError, PrivacyError
from dpicl.methods import METHODS, on_texts
from dpicl.pipeline import Unit
from dpicl.planning.noise import check_noise
from dpicl.tabular.reading.queries import load_queries
from dpicl.tabular.reading.source import find_rows

if TYPE_CHECKING:
    from dpicl.lm.spec import ModelSpec


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
        from dpicl.text.read import find_texts  # of a table it is not needed

        find_texts(contract, data_folder=settings.data, cache_folder=settings.cache)
    elif isinstance(contract, Contract):
        find_rows(contract, data_folder=settings.data, cache_folder=settings.cache)
        load_queries(contract, data_folder=settings.data)


def check_drawn(contract: Declared, unit: Unit, *, anyway: bool) -> None:
    """Whether a unit's releases have a price, and are more than noise at the stated number of rows,
    unless they are made `anyway`. Raises DpiclError: not so.
    """
    METHODS[unit.method].releases(contract, unit)
    if isinstance(contract, Contract):
        check_noise(contract, unit, anyway=anyway)


def check_window(contract: Declared, unit: Unit, window: int | None) -> None:
    """Refuse a window of periods where no horizon is counted. Raises ParameterError: one is
    given.
    """
    if window is not None:
        expected = (
            f"no such option: {contract.name} has no horizon that {METHODS[unit.method].title} "
            f"counts"
        )
        raise ParameterError("window", window, expected)


def check_named(contract: Declared, option: str) -> None:
    """Refuse to spend budget on a default model, which nobody has chosen; benchmarks have none. The
    refusal says what to name.
    """
    if isinstance(contract, TextContract) and not contract.privacy.budget.benchmark:
        raise ModelRefusedError(
            f"{contract.name}: no model is named, and the default one has random weights, on "
            f"which budget would be spent for nothing; "
            f"expected {option} NAME (`tiny` too, if it is meant)"
        )


def check_writer(contract: Declared, unit: Unit, writer: ModelSpec) -> None:
    """Private texts are read by a model that may see them: votes on tokens in this process only,
    ensembles on a trusted server too. Raises ModelRefusedError: this one may not; PrivacyError: it
    counts in too few bits for texts that are not a benchmark's.
    """
    is_server = on_texts(unit.method).votes_on_tokens and writer.kind == "endpoint"
    if is_server or writer.trust != "local":
        raise ModelRefusedError(
            f"model {writer.name!r} is "
            f"{'a server' if writer.kind == 'endpoint' else 'not trusted with private rows'}, and "
            f"raw rows stay "
            f"local; expected a local model as --generator, which may be another than the --model "
            f"that answers"
        )
    if writer.kind == "endpoint" or contract.privacy.budget.benchmark:
        return
    from dpicl.lm.models import number_format  # of a table no model is opened

    counts_in = writer.dtype if writer.dtype not in ("auto", "float32") else number_format(writer)
    if counts_in != "float32":
        # voters are read in batches, and one prompt moves what rounding makes of the others: in
        # sixteen bits too far
        raise PrivacyError(
            f"{contract.name}: model {writer.name!r} has dtype {counts_in}, in which one private "
            f"text moves the votes of others by "
            f"rounding; expected dtype float32 for the model that writes, or a contract with "
            f"`benchmark: true`"
        )
