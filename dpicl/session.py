"""A session: the way from private rows to bytes outside the command line, charged by construction.

    session = dpicl.Session()
    session.plan("customers", rows=5_000).sentence
    session.quote("customers", method=NAME, epsilon=1)  # of dpicl.methods.METHODS
    release = session.protect("customers", epsilon=1)
    session.ask("letters", ["What is asked?"], epsilon=1, model=NAME)
    session.budget()
    session.set_cap("customers", 4)

Asked for again, in any order and however often, the same release is the same bytes and costs
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl.contract.periods import ONCE, read_period
from dpicl.contract.pipeline import read_epsilon
from dpicl.ground.docstrings import with_arguments_of
from dpicl.ground.errors import DpiclError, ParameterError
from dpicl.ground.nouns import many
from dpicl.ground.progress import progress
from dpicl.ground.typed_calls import typed_call, typed_calls
from dpicl.ground.types import DEFAULT_DESIGN
from dpicl.ground.warned import warn
from dpicl.home.accounts import check_not_lost, ledger_file, open_ledger, state_cap
from dpicl.home.settings import Settings, check_restored, stated_home
from dpicl.ledger import Account, Ledger
from dpicl.ledger.budget import UserSpent
from dpicl.methods import METHODS
from dpicl.release import Release
from dpicl.release.door import Schema, given_rows, quote_of, release_of, schema_contract
from dpicl.release.releases import AccountQuote
from dpicl.release.request import ReleaseRequest

if TYPE_CHECKING:
    from dpicl.ground.types import Estimator
    from dpicl.quality.outlook import TablePlan
    from dpicl.release.collected import CollectedRelease
    from dpicl.release.query_session import Answered


@dataclass(frozen=True, repr=False)
class AccountBudget:
    """What an account has spent, of which cap; of a public benchmark there is none.

    Attributes:
        epsilon_spent, epsilon_cap: in nats, of the account's privacy unit.
        delta_spent, delta_cap: probabilities.
        releases: how many were charged.
        users: who charged how much, and each one's share of the cap if there is one.
    """

    account: str
    epsilon_spent: float
    epsilon_cap: float | None
    delta_spent: float
    delta_cap: float
    releases: int
    users: tuple[UserSpent, ...] = ()

    @property
    def epsilon_left(self) -> float | None:
        """What may be charged yet, at least 0; None where there is no cap."""
        return None if self.epsilon_cap is None else max(0.0, self.epsilon_cap - self.epsilon_spent)

    def __str__(self) -> str:
        spent = f"{self.account}: epsilon {self.epsilon_spent:.6g}"
        of_cap = "" if self.epsilon_cap is None else f" of {self.epsilon_cap:.6g}"
        return f"{spent}{of_cap} by {many(self.releases, 'release')}"

    def __repr__(self) -> str:
        """Without what binary numbers leave behind the twelfth digit."""
        shown = (
            f"{name}={value:.12g}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in vars(self).items()
        )
        return f"AccountBudget({', '.join(shown)})"


@typed_calls
class Session:
    """An installation: where its budgets, contracts and data are.

    Args:
        home: the folder of ledger, keys and releases, an absolute path; else DPICL_HOME, else the
            platform's state folder of the user.
        data: the folder of the files that contracts name; else DPICL_DATA.
        contracts: the folder of your contracts, before the shipped ones; else DPICL_CONTRACTS, else
            ./data_contracts.

    Raises:
        ParameterError: the home goes by the working directory.
        LedgerRefusedError: a backup is being restored into the home.
    """

    def __init__(
        self,
        home: PathLike[str] | str | None = None,
        *,
        data: PathLike[str] | str | None = None,
        contracts: PathLike[str] | str | None = None,
    ) -> None:
        settings = Settings.from_environment()
        if home is not None:
            at = stated_home("home", fspath(home))
            settings = replace(settings, home=at, runs=at / "runs")
        if data is not None:
            settings = replace(settings, data=Path(data).resolve())
        if contracts is not None:
            settings = replace(settings, contracts=Path(contracts).resolve())
        check_restored(settings.home)
        self._settings = settings

    def __repr__(self) -> str:
        """Where its accounts are and what is spent of them: facts of the ledger, of no row. Makes
        no ledger where there is none.
        """
        file = ledger_file(self._settings)
        try:
            is_new = file is not None and not file.exists()
            check_not_lost(self._settings)
            spent = [] if is_new else [str(account) for account in self.budget()]
        except DpiclError as error:
            spent = [str(error)]
        return "\n  ".join([f"Session in {self._settings.home}", *(spent or ["nothing charged"])])

    def plan(
        self,
        dataset: Schema,
        *,
        rows: int | None = None,
        epsilons: Sequence[float] = (0.3, 1, 3),
        signal: str | float | None = None,
        trust: str | None = None,
        processes: int = 1,
        fast: bool = False,
    ) -> TablePlan:
        """What every method on a table would be worth, and which to choose: simulated on made-up
        tables; reads no row, charges nothing.

        Args:
            dataset: the name of a contract, or a schema as `protect` takes it; a file's as a Path.

        The others are those of `dpicl.quality.outlook.plan_table`.

        Raises:
            DpiclError: a name or value breaks a rule, or no method fits.
        """
        # a second to import: only where something is planned
        from dpicl.quality.outlook import plan_table

        contract = (
            self._settings.contract(dataset)
            if isinstance(dataset, str)
            else schema_contract(dataset, local=trust == "local")
        )
        with progress(f"{contract.name}: simulating", "made-up tables") as update:
            return plan_table(
                contract,
                rows,
                epsilons,
                signal=signal,
                trust=trust,
                processes=processes,
                fast=fast,
                progress=update,
            )

    def quote(
        self,
        rows: Any,
        schema: Schema | None = None,
        *,
        epsilon: float,
        account: str | None = None,
        method: str | None = None,
        trust: str = "central",
        shots: int = 4,
        budget: float | None = None,
        period: str | None = None,
        population: int | None = None,
        anyway: bool = False,
        generator: str | None = None,
        window: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> Sequence[AccountQuote]:
        """What `protect` would charge, by account; opens none, spends nothing and reads no row.

        The arguments are those of `protect`. It refuses what `protect` refuses, but a cap that
        would be passed: then `quote.allowed` is false. Texts that were released cost nothing, and
        no account is named for them.

        Raises:
            DpiclError: a name, value or file breaks a rule, or the ledger was edited.
        """
        request = ReleaseRequest(
            dataset="",
            epsilon=read_epsilon(epsilon),
            method=method,
            trust=trust,
            shots=shots,
            options=options or {},
            period=period,
            anyway=anyway,
            generator=generator,
            window=window,
        )
        settings, request = self._requested(
            rows, schema, request, account=account, budget=budget, population=population
        )
        return quote_of(request, settings)

    def protect(
        self,
        rows: Any,
        schema: Schema | None = None,
        *,
        epsilon: float,
        account: str | None = None,
        method: str | None = None,
        trust: str = "central",
        shots: int = 4,
        budget: float | None = None,
        period: str | None = None,
        population: int | None = None,
        anyway: bool = False,
        generator: str | None = None,
        window: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> Release:
        """Release a table, once: charged in its account before a row is read. Of texts, the release
        that a run has made.

        Args:
            rows: the name of a contract; or, with a schema, a data frame (pandas, polars, Arrow), a
                path of a file, a folder, an address `s3://…` or a `dpicl.Query`.
            schema: what is publicly known of the rows: a mapping with `columns`, the path of a YAML
                file, or a Contract.
            epsilon: of the release, in nats.
            account: the data asset that is charged; required of a data frame, whose rows have no
                address.
            method: of `dpicl.methods`, on tables; the usual one of `trust` if left out.
            trust: who sees true rows: `central`, a curator; `local`, the client alone.
            shots: how many demonstrations a method makes whose release depends on their number.
            budget: the cap of a new account; the schema's if left out, or else what this release
                costs. Of an account that was charged, `set_cap` sets another.
            period: where the contract releases again each month, say, another one than now; of a
                horizon, one that is over.
            population: about how many rows there are, as publicly stated.
            anyway: make a release all the same that would be little but noise at the stated number
                of rows.
            generator: of texts, the model that wrote them, where several have.
            window: where the contract has a horizon, how many periods the rows are of, up to
                `period`; all if left out. All that are over and not made yet are made first, in
                order, under the horizon's one charge.
            options: of the method, in place of its usual ones.

        Raises:
            DpiclError: a name or value breaks a rule, or the budget does not allow it; nothing was
                charged then.
        """
        request = ReleaseRequest(
            dataset="",
            epsilon=read_epsilon(epsilon),
            method=method,
            trust=trust,
            shots=shots,
            options=options or {},
            period=period,
            anyway=anyway,
            generator=generator,
            window=window,
        )
        settings, request = self._requested(
            rows, schema, request, account=account, budget=budget, population=population
        )
        with progress(f"{request.dataset}: releasing"):
            release = release_of(request, settings)
            doubts = release.doubted_bounds
        # the first says what was spent; others, that the cap of this call does not hold
        for sentence in release.spent[1:]:
            warn(sentence)
        for question in doubts:
            warn(f"{release.dataset}: {question}")
        return release

    def collect(
        self,
        contract: str,
        reports: PathLike[str] | str,
        *,
        epsilon: float,
        design: str = DEFAULT_DESIGN,
        columns: int | None = None,
        about: Sequence[str] = (),
        label_alone: bool = False,
        sending_epsilon: float | None = None,
        estimator: Estimator | None = None,
        period: str = ONCE,
        close: Path | None = None,
        shots: int = 4,
    ) -> CollectedRelease:
        """Rows and demonstrations of reports that clients have sent; nothing is charged, since each
        client's own wallet paid.

        Args:
            contract: the name of the one that clients answered.
            reports: a file, a folder, or an address `s3://…`.
            epsilon: of a client's answer, in nats.
            design, columns, about, label_alone, sending_epsilon, estimator: what clients were told,
                as `python -m dpicl.client` takes it.
            period: whose reports count; those of no period if left out.
            close: a file that closes the period: counted once, then read.
            shots: how many demonstrations are made where no number is given.

        Raises:
            DpiclError: a name or value breaks a rule, or there is no such place.
        """
        from dpicl.methods.collection import Collection
        from dpicl.release.collected import collect, count_collection

        collection = Collection.of(
            self._settings.contract(contract),
            epsilon=read_epsilon(epsilon),
            design=design,
            columns=columns,
            about=about,
            label_alone=label_alone,
            sending_epsilon=sending_epsilon,
            estimator=estimator,
        )
        counts = count_collection(collection, str(reports), read_period(period), close=close)
        return collect(collection, counts, self._settings, shots)

    def _requested(
        self,
        rows: Any,
        schema: Schema | None,
        request: ReleaseRequest,
        *,
        account: str | None,
        budget: float | None,
        population: int | None,
    ) -> tuple[Settings, ReleaseRequest]:
        """Settings under which the rows have a contract, and what is asked for of it."""
        if schema is not None:
            named = METHODS.entries.get(request.method or "")
            trust = request.trust if named is None else named.trust
            settings = given_rows(
                rows,
                schema,
                self._settings,
                account=account,
                budget=budget,
                population=population,
                local=trust == "local",
            )
            assert settings.given is not None
            return settings, replace(request, dataset=settings.given.contract.name)
        if not isinstance(rows, str) or not rows.isidentifier():  # names of contracts are
            raise ParameterError(
                "schema",
                None,
                "what is publicly known of these rows: a mapping with `columns`, or a YAML file",
            )
        stated = {"account": account, "budget": budget, "population": population}
        for name, value in stated.items():
            if value is not None:
                raise ParameterError(name, value, f"it in the contract {rows}, or with a schema")
        return self._settings, replace(request, dataset=rows)

    def ask(
        self,
        account: str,
        queries: Sequence[str],
        *,
        epsilon: float,
        count: int = 100,
        shots: int = 4,
        model: str | None = None,
        again: bool = False,
        period: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> Sequence[Answered]:
        """Answer queries from private texts, each once: a release is charged for `count` of them
        before a row is read.

        Args:
            account: the name of a contract of texts.
            epsilon: of all `count` queries together, in nats.
            shots: private rows in a prompt.
            model: one that may see the rows; to be named unless they are a benchmark's.
            again: charge for as many queries more where all are answered.
            period: where the contract releases again each month, say, another one than now.
            options: of the ensemble, as in pipelines.yaml: `aggregation`, `subsets`, `similarity`
                and so on.

        Raises:
            DpiclError: a name or value breaks a rule, or the budget does not allow it; what was
                answered is free when asked again.
        """
        from dpicl.release.query_session import QuerySession, request_of

        request = request_of(
            account,
            epsilon=read_epsilon(epsilon),
            shots=shots,
            count=count,
            model=model,
            options=options or {},
            settings=self._settings,
            period=period,
        )
        return list(QuerySession(request, self._settings, again=again).answer(queries))

    def budget(self) -> tuple[AccountBudget, ...]:
        """Every account, the whole chain of charges verified.

        Raises:
            LedgerError: the ledger was edited or rolled back.
        """
        with open_ledger(self._settings) as ledger:
            ledger.verify()
            return tuple(_budget(ledger, account) for account in ledger.accounts())

    def set_cap(self, account: str, epsilon: float, delta: float | None = None) -> AccountBudget:
        """Set an account's cap, as `dpicl budget NAME --cap` does: from now on it holds, and not
        that of the call or contract that opened the account, until a contract of a new charge
        states a smaller one. Gives what is spent and left.

        Args:
            account: one that was charged.
            epsilon: of all its releases, in nats.
            delta: of all its releases; what it was if left out.

        Raises:
            ParameterError: a cap is no finite number, or negative.
            LedgerError: there is no such account.
            PrivacyError: it is a public benchmark's.
        """
        with open_ledger(self._settings) as ledger:
            state_cap(ledger, account, epsilon, delta, self._settings)
            return _budget_of(ledger, account)

    def set_share(self, account: str, user: str, epsilon: float) -> AccountBudget:
        """Set the most that a user may charge to an account, as `dpicl budget NAME --share` does.

        Args:
            account: one that was charged.
            user: as DPICL_USER names them, else the user of the machine.
            epsilon: of all that user's releases, in nats.

        Raises:
            ParameterError: no user is named, or the share is no finite number, or negative.
            LedgerError: there is no such account.
            PrivacyError: it is a public benchmark's.
        """
        if not user:
            raise ParameterError("user", user, "a name, as DPICL_USER has it")
        with open_ledger(self._settings) as ledger:
            ledger.set_share(account, user, epsilon)
            return _budget_of(ledger, account)


def _budget_of(ledger: Ledger, name: str) -> AccountBudget:
    (account,) = (account for account in ledger.accounts() if account.name == name)
    return _budget(ledger, account)


def _budget(ledger: Ledger, account: Account) -> AccountBudget:
    spent = ledger.spent(account.name)
    return AccountBudget(
        account.name,
        spent.epsilon,
        account.epsilon_cap,
        spent.delta,
        account.delta_cap,
        len(ledger.entries(account.name)),
        tuple(ledger.spent_by_users(account.name)),
    )


@typed_call
@with_arguments_of(
    Session.protect, home="the state home; by default that of the user, or `DPICL_HOME`."
)
def protect(
    rows: Any,
    schema: Schema | None = None,
    *,
    epsilon: float,
    home: PathLike[str] | str | None = None,
    account: str | None = None,
    method: str | None = None,
    trust: str = "central",
    shots: int = 4,
    budget: float | None = None,
    period: str | None = None,
    population: int | None = None,
    anyway: bool = False,
    generator: str | None = None,
    window: int | None = None,
    options: Mapping[str, object] | None = None,
) -> Release:
    """Release a table, once, as `Session(home).protect` does, whose arguments it takes."""
    return Session(home).protect(
        rows,
        schema,
        epsilon=epsilon,
        account=account,
        method=method,
        trust=trust,
        shots=shots,
        budget=budget,
        period=period,
        population=population,
        anyway=anyway,
        generator=generator,
        window=window,
        options=options,
    )
