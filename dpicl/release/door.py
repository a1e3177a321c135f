"""The door to a release, of a table or of texts: made now, unless it was before; or what it would
cost. Rows may be those of a contract in a file, or a program's own with a schema, which makes the
contract here.

Rows in memory have no address, so their account is named: `frame:ACCOUNT` is the data asset,
whatever frame holds it. A file, a folder, an object of a store or a query is the asset that a
contract's `source` of it would be.

Guarantee   none spent: from public facts to a contract and a cap; rows are only handed on, and no
            message holds any of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from os import PathLike
from pathlib import Path
from typing import Any

from dpicl.accounting.filters import Spent
from dpicl.contract import Contract, TextContract, declared
from dpicl.contract.base import IN_FULL, as_written
from dpicl.contract.load import parse_contract
from dpicl.contract.periods import clock
from dpicl.data.reading.parse import check_columns
from dpicl.data.reading.typed_columns import as_arrow, check_types, is_pandas
from dpicl.data.reading.written import SUFFIXES
from dpicl.ground.errors import DeclarationError, ParameterError
from dpicl.ground.files import sha256_of
from dpicl.ground.objects import SCHEME
from dpicl.ground.validation import validate
from dpicl.ground.yaml_file import read_yaml
from dpicl.home.accounts import addresses_of, one_ledger, open_ledger
from dpicl.home.settings import Given, Settings
from dpicl.ledger.budget import as_paid
from dpicl.methods import METHODS
from dpicl.release.names import account_of
from dpicl.release.one_release import PublishedRelease, check_release, planned_table, release_once
from dpicl.release.release import Release
from dpicl.release.releases import AccountQuote, quote_release
from dpicl.release.request import PlannedRelease, ReleaseRequest, check_window

_PLACES = (
    "bundled",
    "file",
    "folder",
    "query",
    "frame",
    "openml",
    "uci",
    "moved_from",
    "content_sha256",
)
_NO_CAP_YET = 1e12
"""In the place of a cap, until what a first release costs is known."""


class Query(declared.QuerySource):
    """Rows from a database, for `protect` and `quote`.

    Args:
        url_env: name of the environment variable that holds the database's URL, in capitals.
        sql: one statement that returns the contract's columns.

    Raises:
        DeclarationError: one of them breaks a rule.
    """

    def __init__(self, url_env: str, sql: str) -> None:
        content = {"url_env": url_env, "sql": sql}
        super().__init__(**validate(declared.QuerySource, content, "Query").model_dump())


Schema = Mapping[str, Any] | PathLike[str] | str | Contract


def given_rows(
    rows: Any,
    schema: Schema,
    settings: Settings,
    *,
    account: str | None = None,
    budget: float | None = None,
    population: int | None = None,
    local: bool = False,
) -> Settings:
    """Settings under which these rows (a data frame or Arrow table, a path, an address `s3://…` or
    a `Query`) have a contract, `given.contract`.

    Args:
        schema: a contract's content: columns at least; or its file.
        account: of the data asset; required of rows in memory. `budget` is its cap on epsilon, in
            place of the schema's.
        population: about how many rows there are, as publicly stated.
        local: whether the rows are to be randomised one by one, so that anybody can count them:
            their number is public then, and a schema that states no neighbours exchanges a row for
            another.

    Raises DpiclError: the schema breaks a rule, or rows are of no known kind.
    """
    content, file = _content(schema)
    place, frame, settings = _placed(rows, settings)
    named = account or content.get("account")
    if frame is not None and named is None:
        expected = (
            "the name of the data asset that these rows are, such as customers: all that is ever "
            "released of it is charged there"
        )
        raise ParameterError("account", None, expected)
    if named is not None and not re.fullmatch("[a-z][a-z0-9_]{0,39}", str(named)):
        raise ParameterError(
            "account",
            repr(named)[:60],
            "up to 40 small letters, digits and underscores, a letter first",
        )
    if "moved_from" in dict(content.get("source") or {}):
        expected = "the contract by its name, without rows, or no such key"
        raise DeclarationError(
            file, "source.moved_from", "is about a contract's own file", expected
        )
    stated = {
        key: value
        for key, value in (("account", named), ("population", population))
        if value is not None
    }
    called = str(named or ("" if isinstance(rows, declared.QuerySource) else rows))
    stem = Path(called.rstrip("/")).name.partition(".")[0]
    name = re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_")[:40]
    name = name if re.match("[a-z]", name) else "table"
    contract, has_cap = _contract(
        {"name": name, **content, **stated}, file, place=place, budget=budget, local=local
    )

    def columns_to_read(names: list[str]) -> Sequence[str]:
        check_columns(names, contract, contract.name)
        return contract.read_columns

    table = None if frame is None else as_arrow(frame, columns_to_read)
    if table is not None:
        check_types(table.schema, contract, contract.name)
    return replace(settings, given=Given(contract, table, has_cap))


def schema_contract(schema: Schema, *, local: bool = False) -> Contract:
    """What a schema says before there are rows: for plans. Raises DeclarationError: the schema
    breaks a rule.
    """
    content, file = _content(schema)
    return _contract(
        {"name": "table", "account": "table", **content},
        file,
        place={"frame": True},
        budget=None,
        local=local,
    )[0]


def _contract(
    content: dict[str, Any],
    file: str,
    *,
    place: Mapping[str, Any],
    budget: float | None,
    local: bool,
) -> tuple[Contract, bool]:
    """A schema as a contract, and whether it states a cap."""
    source = {
        key: value for key, value in dict(content.get("source") or {}).items() if key not in _PLACES
    }
    privacy = {**({"neighbours": "replace-one"} if local else {}), **(content.get("privacy") or {})}
    caps = dict(privacy.get("budget") or {}) | ({} if budget is None else {"epsilon": budget})
    has_cap = bool(caps.get("benchmark")) or "epsilon" in caps
    budgeted = {**privacy, "budget": caps if has_cap else {**caps, "epsilon": _NO_CAP_YET}}
    contract = parse_contract(
        {**content, "version": 2, "source": {**source, **place}, "privacy": budgeted}, file
    )
    if not isinstance(contract, Contract):
        raise DeclarationError(file, "kind", "is of texts", "a schema of a table")
    return contract, has_cap


def with_account(planned: PlannedRelease, settings: Settings) -> PlannedRelease:
    """The same release, with what the schema leaves open: which account pays, and its cap.

    It is the one that pays at the rows' address already; else a new one, by a name that no other
    asset has. The cap of an account that was charged stands; another may spend what its first
    release costs, and no more.
    """
    assert settings.given is not None
    contract = planned.contract
    addresses = addresses_of(contract, settings)
    with open_ledger(settings) as ledger:
        accounts = {account.name: account for account in ledger.accounts()}
        paying = ledger.payer_at(addresses, named=contract.account)
        own = contract.account or paying or contract.name
        if contract.account is None and paying is None and own in accounts:
            own = f"{own[:32]}_{sha256_of(' '.join(addresses))[:6]}"
    changed: dict[str, Any] = {"account": own}
    if not settings.given.has_cap:
        account = account_of(contract, planned.method)
        cost = METHODS[planned.method].cost(contract, planned.point)
        price = Spent.nothing().plus(as_paid(cost.charged, account))
        budget = contract.privacy.budget.model_copy(
            update={"epsilon": price.cost(account.delta_cap).epsilon}
        )
        changed["privacy"] = contract.privacy.model_copy(update={"budget": budget})
    return replace(planned, contract=contract.model_copy(update=changed))


def _content(schema: Schema) -> tuple[dict[str, Any], str]:
    """A schema as a contract's file has it, and its name in messages."""
    if isinstance(schema, Contract):
        # whose categories have a type there
        columns = json.loads(schema.model_dump_json(include={"columns"}, context=IN_FULL))
        return json.loads(schema.model_dump_json()) | columns, f"{schema.name}.yaml"
    if isinstance(schema, str | PathLike):
        content = read_yaml(Path(schema))
        file = Path(schema).name
    else:
        content = _plain(schema)
        file = "schema"
    if not isinstance(content, Mapping) or not isinstance(content.get("columns"), Mapping):
        raise DeclarationError(
            file, "columns", "is missing", "{name: {type: …, bounds or categories}} of every column"
        )
    for key in ("source", "privacy"):
        if not isinstance(content.get(key) or {}, Mapping):
            raise DeclarationError(file, key, "is no mapping", "keys with values, or none")
    return dict(content), file


def _plain(value: Any) -> Any:
    """A schema of Python as YAML would have it: dates as texts, arrays as lists, and so booleans in
    a list that has other members.
    """
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, str | bytes) and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        members = [_plain(member) for member in value]
        if all(isinstance(member, bool) for member in members):
            return members
        return [
            as_written(member) if member is True or member is False else member
            for member in members
        ]
    return value


def _placed(rows: Any, settings: Settings) -> tuple[dict[str, Any], Any, Settings]:
    """The part of a source that says where rows are, those in memory (a frame of pandas, or of
    Arrow), and settings that lead to a file.
    """
    if isinstance(rows, declared.QuerySource):
        return {"query": rows.model_dump()}, None, settings
    if not isinstance(rows, str | PathLike):
        return {"frame": True}, rows if is_pandas(rows) else as_arrow(rows), settings
    text = str(rows)
    if text.startswith(SCHEME):
        return {"file" if text.endswith(SUFFIXES) else "folder": text}, None, settings
    path = Path(rows).absolute()
    if not path.exists():
        raise ParameterError(
            "rows",
            path.name,
            "a data frame, a Query, or the path of a file or folder; there is no such file",
        )
    return (
        {"folder" if path.is_dir() else "file": path.name},
        None,
        replace(settings, data=path.parent),
    )


def release_of(request: ReleaseRequest, settings: Settings) -> Release:
    """The release that is asked for, made now, unless it was before. Raises DpiclError: a name or
    value breaks a rule, or the budget does not allow it.
    """
    with one_ledger(settings):
        found = _planned(request, settings)
        if isinstance(found, PlannedRelease):
            found = _made(found, request, settings)
    if isinstance(found.planned.contract, TextContract):
        from dpicl.release.texts import TextRelease  # of a table it is not needed

        return TextRelease(found)
    return Release(found)


def quote_of(request: ReleaseRequest, settings: Settings) -> list[AccountQuote]:
    """What `release_of` would charge, by account; nothing for texts that stand. Opens no
    account, spends nothing, reads no row.

    Raises:
        DpiclError: as `release_of`, but where the cap does not allow it: then `quote.allowed` is
            false.
    """
    with one_ledger(settings):
        planned = _planned(request, settings)
        if not isinstance(planned, PlannedRelease):
            return []
        check_release(planned, settings)
        return quote_release(planned, settings)


def _planned(request: ReleaseRequest, settings: Settings) -> PlannedRelease | PublishedRelease:
    """What is to be made; or texts that stand."""
    if isinstance(settings.declared(request.dataset), TextContract):
        if request.window is not None:
            raise ParameterError(
                "window", request.window, f"none: {request.dataset} has no horizon of periods"
            )
        from dpicl.release.pipelines import model_named
        from dpicl.release.texts import not_released, planned_texts, standing_texts

        wanted = planned_texts(request, settings)
        standing = standing_texts(wanted, settings, request.generator)
        if standing is not None:
            return standing
        if request.generator is None:
            raise not_released(wanted, settings, request.period)
        return replace(wanted, writer=model_named(request.generator, settings))
    if request.generator is not None:
        raise ParameterError(
            "generator", request.generator, f"none: no model reads the rows of {request.dataset}"
        )
    planned = planned_table(request, settings)
    if settings.given is not None:
        planned = with_account(planned, settings)
    if METHODS[planned.method].is_series(planned.contract):
        from dpicl.release.horizon import window_of

        window_of(planned, until=request.period, window=request.window, now=clock())
    else:
        check_window(planned.contract, planned.method, request.window)
    return planned


def _made(planned: PlannedRelease, request: ReleaseRequest, settings: Settings) -> PublishedRelease:
    if planned.writer is None and METHODS[planned.method].is_series(planned.contract):
        from dpicl.release.horizon import release_planned

        return release_planned(planned, settings, until=request.period, window=request.window)
    return release_once(planned, settings)
