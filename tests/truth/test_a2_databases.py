"""A database has one account, however its address is spelt: it is asked itself which one it is, on
the connection that reads its rows.
"""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

import pandas as pd
import psycopg
import pytest
from psycopg.pq import Conninfo
from sqlalchemy import make_url

import dpicl
from dpicl.contract.declared import QuerySource
from dpicl.data.reading import database, postgresql
from dpicl.ground.errors import DpiclError, LedgerRefusedError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.release import rows as private_rows
from dpicl.release.releases import check_ledger
from tests.harness import Place, call_main, free_port, said, until
from tests.ledger.postgres import Server, required_programs, running_postgres, unprivileged

from . import small
from .asset_tools import ROWS, accounts, contract, dry, payer, refusal, spend

Mutant = Callable[[pytest.MonkeyPatch], None]
Capture = pytest.CaptureFixture[str]
SQL = "SELECT age, spent, colour, member, bought FROM public.shop"
EVIL = """CREATE SCHEMA evil;
CREATE FUNCTION evil.pg_control_system(OUT system_identifier bigint) AS 'SELECT 1::bigint' LANGUAGE sql;
CREATE FUNCTION evil.current_database() RETURNS name AS $$SELECT 'decoy'::name$$ LANGUAGE sql;
CREATE FUNCTION evil.never(name, name) RETURNS boolean AS 'SELECT true' LANGUAGE sql;
CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.never);
CREATE VIEW evil.pg_database AS SELECT 1::oid AS oid, 'shop'::name AS datname;
GRANT USAGE ON SCHEMA evil TO me;
GRANT SELECT ON evil.pg_database TO me"""  # noqa: E501


def url_of(
    server: Server, name: str = "shop", *, port: int = 0, host: str = "127.0.0.1", more: str = ""
) -> str:
    return f"postgresql://me:pw@{host}:{port or server.port}/{name}{more}"


def execute(server: Server, statements: str, name: str = "postgres") -> None:
    with psycopg.connect(
        server.url().replace("/postgres", f"/{name}"), autocommit=True
    ) as connection:
        for statement in statements.split(";\n"):
            connection.execute(statement.encode())


def fill(server: Server) -> None:
    """Databases `shop` and `decoy` with the same rows, and a role `me` that may only read them."""
    execute(
        server,
        "CREATE ROLE me LOGIN PASSWORD 'pw';\nCREATE ROLE you LOGIN PASSWORD 'pw' IN ROLE me",
    )
    for name in ("shop", "decoy"):
        execute(server, f"CREATE DATABASE {name}")
        execute(
            server,
            "CREATE TABLE shop (age int, spent numeric, colour text, member text, bought "
            "text);\nGRANT SELECT ON shop TO me",
            name,
        )
        copying = "COPY shop FROM STDIN WITH (FORMAT csv)"
        columns = pd.read_csv(StringIO(ROWS))[["age", "spent", "colour", "member", "bought"]]
        address = server.url().replace("/postgres", f"/{name}")
        with (
            psycopg.connect(address, autocommit=True) as connection,
            connection.cursor().copy(copying) as copy,
        ):
            copy.write(columns.to_csv(index=False, header=False))
    execute(server, EVIL, "shop")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_postgres(durable=False) as server:
        fill(server)
        yield server


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Server]:
    """A second cluster with databases of the same names."""
    with running_postgres(durable=False) as server:
        fill(server)
        yield server


@dataclass
class Relay:
    """A port that leads to one server, and to another one after so many connections: a pooler, a
    load balancer, a forwarded port.
    """

    ports: list[int]
    port: int = field(default_factory=free_port)
    taken: int = 0

    def serve(self, door: socket.socket) -> None:
        with suppress(OSError):
            while True:
                mine, _ = door.accept()
                theirs = socket.create_connection(
                    ("127.0.0.1", self.ports[min(self.taken, len(self.ports) - 1)])
                )
                self.taken += 1
                for one, other in ((mine, theirs), (theirs, mine)):
                    threading.Thread(target=_copy, args=(one, other), daemon=True).start()


def _copy(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)


@contextmanager
def relay(*ports: int) -> Iterator[Relay]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        made = Relay(list(ports), door.getsockname()[1])
        threading.Thread(target=made.serve, args=(door,), daemon=True).start()
        yield made


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)


def asking(place: Place, name: str, url: str) -> str:
    """A contract on the table at an address, in an environment variable of its own."""
    os.environ[f"DB_{name.upper()}"] = url
    return contract(place, name, {"query": {"url_env": f"DB_{name.upper()}", "sql": SQL}})


@pytest.fixture(autouse=True)
def first(place: Place, server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The account `first` pays for the database `shop`, by its plain address."""
    before = dict(os.environ)
    asking(place, "first", url_of(server))
    assert payer("first") == "first"
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]


def service(place: Place, server: Server, **said_of: str) -> str:
    file = place.root / "services.conf"
    lines = {
        "host": "127.0.0.1",
        "port": str(server.port),
        "dbname": "shop",
        "user": "me",
        "password": "pw",
        **said_of,
    }
    file.write_text("[svc]\n" + "\n".join(f"{key}={value}" for key, value in lines.items()))
    os.environ["PGSERVICEFILE"] = str(file)
    return "svc"


SPELLINGS = {
    "a name for the number": "postgresql://me:pw@localhost:{port}/shop",
    "in capitals": "postgresql://me:pw@LocalHost:{port}/shop",
    "with its driver": "postgresql+psycopg://me:pw@127.0.0.1:{port}/shop",
    "as another role": "postgresql://you:pw@127.0.0.1:{port}/shop",
    "another database in the path": "postgresql://me:pw@127.0.0.1:{port}/decoy?dbname=shop",
    "none in the path": "postgresql://me:pw@127.0.0.1:{port}/none?dbname=shop",
    "another host in the place": "postgresql://me:pw@elsewhere.example:{port}/shop?hostaddr=127.0.0.1",
    "all in parameters": "postgresql:///?host=127.0.0.1&port={port}&dbname=shop&user=me&password=pw",
    "host and port in parameters": "postgresql://me:pw@/shop?host=127.0.0.1&port={port}",
    "several hosts": "postgresql://me:pw@/shop?host=127.0.0.1:1&host=127.0.0.1:{port}&connect_timeout=2",
    "several hosts, balanced": "postgresql://me:pw@/shop?host=localhost:{port}&host=127.0.0.1:{port}&load_balance_hosts=random",
    "a service": "postgresql:///?service=svc",
    "a service beside a path": "postgresql://me:pw@127.0.0.1:{port}/?service=svc",
    "through a pooler": "postgresql://me:pw@127.0.0.1:{relay}/shop",
    "names of its own first": "postgresql://me:pw@127.0.0.1:{port}/shop?options=-csearch_path%3Devil,pg_catalog",
    "as the admin": "{admin}",
}


@pytest.mark.parametrize("way", SPELLINGS)
def test_every_spelling_of_an_address_pays_from_the_database_s_account(
    place: Place, server: Server, way: str
) -> None:
    service(place, server)
    with relay(server.port) as pooler:
        admin = server.url().replace("/postgres", "/shop")
        url = SPELLINGS[way].format(port=server.port, relay=pooler.port, admin=admin)
        assert payer(asking(place, "second", url)) == "first"


def test_in_all_spellings_together_the_cap_is_spent_once(
    place: Place, capsys: Capture, server: Server
) -> None:
    """The five that were charged 5 of 1."""
    code, sentence = spend(place, capsys, "first")
    assert code == 0, sentence
    ways = (
        "a name for the number",
        "another database in the path",
        "none in the path",
        "another host in the place",
        "host and port in parameters",
    )
    for number, way in enumerate(ways):
        name = asking(place, f"again{number}", SPELLINGS[way].format(port=server.port))
        code, sentence = spend(place, capsys, name)
        assert (
            code == 2
            and "account 'first': a new release costs epsilon=1, spent 1 of cap 1" in sentence
        ), (way, sentence)
    assert accounts(capsys) == {"first": 1.0}


def test_another_database_is_another_asset_even_behind_the_same_parameters(
    place: Place, server: Server
) -> None:
    assert payer(asking(place, "decoy", url_of(server, "shop", more="?dbname=decoy"))) == "decoy"
    assert payer(asking(place, "plain", url_of(server, "decoy"))) == "decoy"
    assert payer("first") == "first"


def test_two_servers_behind_the_same_parameters_are_two_assets(
    place: Place, elsewhere: Server
) -> None:
    assert (
        payer(
            asking(
                place, "second", f"postgresql://me:pw@/shop?host=127.0.0.1&port={elsewhere.port}"
            )
        )
        == "second"
    )


# What libpq knows, by its own list


def values_of(server: Server) -> dict[str, str]:
    return {
        "host": "localhost",
        "hostaddr": "127.0.0.1",
        "port": str(server.port),
        "dbname": "shop",
        "user": "you",
        "password": "pw",
        "service": "svc",
        "options": "-c search_path=evil,pg_catalog",
        "client_encoding": "latin1",
        "replication": "database",
        "target_session_attrs": "primary",
        "load_balance_hosts": "random",
        "sslmode": "disable",
        "gssencmode": "disable",
        "channel_binding": "disable",
        "require_auth": "scram-sha-256",
        "passfile": "/none",
        "connect_timeout": "7",
        "sslnegotiation": "postgres",
    }


KEYWORDS = {
    one.keyword.decode(): one.envvar.decode() if one.envvar else None
    for one in Conninfo.get_defaults()
}


def test_every_keyword_of_libpq_leaves_the_account_or_is_refused(
    place: Place, server: Server
) -> None:
    """In the address and in the environment, toward this database and away from a wrong one in the
    path.
    """
    service(place, server)
    right = {
        "host": "127.0.0.1",
        "port": str(server.port),
        "dbname": "shop",
        "user": "me",
        "password": "pw",
    }
    wrong = {
        "host": "elsewhere.example",
        "port": "1",
        "dbname": "decoy",
        "user": "nobody",
        "password": "no",
    }
    for keyword, variable in KEYWORDS.items():
        value = values_of(server).get(keyword, "1")
        base = right | ({keyword: wrong[keyword]} if keyword in wrong else {})
        spelt = [
            f"postgresql://{base['user']}:{base['password']}@{base['host']}:{base['port']}/{base['dbname']}?{keyword}={value}"
        ]
        spelt += (
            [f"postgresql://{_parameters(right)}&{keyword}={value}"] if keyword not in right else []
        )
        for number, url in enumerate(spelt):
            _is_first_or_refused(asking(place, f"url{number}", url))
        if variable is not None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(variable, value)
                url = f"postgresql://{_parameters({name: value for name, value in right.items() if name != keyword})}"  # noqa: E501
                _is_first_or_refused(asking(place, "environment", url))


def _parameters(said_of: dict[str, str]) -> str:
    return "/?" + "&".join(f"{key}={value}" for key, value in said_of.items())


def _is_first_or_refused(name: str) -> None:
    try:
        assert payer(name) == "first"
    except DpiclError as error:
        refused = "no database answers", "refuses the login"
        assert any(words in str(error) for words in refused) or "does not say which one" in str(
            error
        ), error
        with open_ledger(Settings.current()) as ledger:
            assert [account.name for account in ledger.accounts()] == ["first"]


# Names that change, clones, and what was bound before


def test_a_database_that_is_renamed_is_the_same(place: Place, server: Server) -> None:
    execute(server, "ALTER DATABASE shop RENAME TO renamed")
    try:
        assert payer(asking(place, "second", url_of(server, "renamed"))) == "first"
    finally:
        execute(server, "ALTER DATABASE renamed RENAME TO shop")


def test_a_database_that_is_made_anew_in_its_place_goes_on(place: Place, server: Server) -> None:
    """As a file that is replaced: a nightly restore, or an upgrade of the server, is no new
    budget.
    """
    execute(server, "CREATE DATABASE nightly TEMPLATE decoy")
    name = asking(place, "nightly", url_of(server, "nightly"))
    assert payer(name) == "nightly"
    execute(server, "DROP DATABASE nightly;\nCREATE DATABASE nightly TEMPLATE decoy")
    assert payer(name) == "nightly"
    execute(server, "ALTER DATABASE nightly RENAME TO moved")
    assert payer(asking(place, "moved", url_of(server, "moved"))) == "nightly"
    execute(server, "DROP DATABASE moved")


def test_a_forwarded_port_that_leads_to_known_servers_in_turn_is_each_of_them(
    place: Place, server: Server, elsewhere: Server
) -> None:
    assert payer(asking(place, "second", url_of(elsewhere))) == "second"
    with relay(server.port, elsewhere.port, server.port, elsewhere.port) as forwarded:
        name = asking(place, "third", url_of(server, port=forwarded.port))
        assert [payer(name) for _ in range(4)] == ["first", "second", "first", "second"]
    with open_ledger(Settings.current()) as ledger:
        ledger.verify()


def test_a_logical_copy_is_another_asset(place: Place, server: Server) -> None:
    execute(server, "CREATE DATABASE copied TEMPLATE shop")
    assert payer(asking(place, "second", url_of(server, "copied"))) == "second", (
        "documented: a copy is not noticed"
    )
    execute(server, "DROP DATABASE copied")


@pytest.mark.exhaustive
def test_a_physical_clone_or_replica_is_the_same_and_says_so(place: Place, server: Server) -> None:
    programs, who = required_programs(), unprivileged()
    home, port = Path(tempfile.mkdtemp(prefix="dpicl-clone-", dir="/tmp")), free_port()
    if who:
        os.chown(home, who["user"], who["group"])
    environment = {**os.environ, "PGPASSWORD": server.password}
    taking: list[str | Path] = [
        programs / "pg_basebackup",
        "-h",
        "127.0.0.1",
        "-p",
        str(server.port),
        "-U",
        "dpicl",
        "-D",
        home / "data",
        "-c",
        "fast",
        "--no-sync",
    ]
    subprocess.run(taking, check=True, capture_output=True, env=environment, cwd=home, **who)
    settings = [
        "-c",
        f"port={port}",
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        "unix_socket_directories=",
        "-c",
        "fsync=off",
    ]
    process = subprocess.Popen(
        [programs / "postgres", "-D", home / "data", *settings],
        stderr=subprocess.DEVNULL,
        cwd=home,
        **who,
    )
    try:
        until(lambda: _answers(url_of(server, port=port)), 60, "the clone")
        assert payer(asking(place, "second", url_of(server, port=port))) == "first"
        assert "or a replica or restored clone of it" in dry(
            named(place, "third", url_of(server, port=port), account="third")
        )
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(home)


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def named(place: Place, name: str, url: str, account: str) -> str:
    asking(place, name, url)
    return contract(
        place, name, {"query": {"url_env": f"DB_{name.upper()}", "sql": SQL}}, account=account
    )


def test_a_named_account_takes_no_database_of_another(place: Place, server: Server) -> None:
    sentence = dry(named(place, "second", url_of(server, "x", more="?dbname=shop"), account="mine"))
    assert (
        "its rows belong to account 'first'" in sentence and "expected `account: first`" in sentence
    )
    assert (
        payer(named(place, "second", url_of(server, "x", more="?dbname=shop"), account="first"))
        == "first"
    )


def test_one_that_may_not_say_which_it_is_is_refused_with_the_grant(
    place: Place, server: Server
) -> None:
    for function, role in (("pg_catalog.pg_control_system()", "PUBLIC"),):
        execute(server, f"REVOKE EXECUTE ON FUNCTION {function} FROM {role}", "decoy")
        try:
            sentence = dry(asking(place, "second", url_of(server, "decoy")))
        finally:
            execute(server, f"GRANT EXECUTE ON FUNCTION {function} TO {role}", "decoy")
    assert (
        "does not say which one it is" in sentence
        and "GRANT EXECUTE ON FUNCTION pg_catalog.pg_control_system() TO" in sentence
    )
    assert payer("second") == "second"


# The connection that reads


def scans(server: Server) -> int:
    with psycopg.connect(server.url().replace("/postgres", "/shop"), autocommit=True) as connection:
        connection.execute("SELECT pg_stat_clear_snapshot()")
        row = connection.execute(
            "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'shop'"
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("switched", [1, 2, 3])
def test_an_address_that_leads_elsewhere_gives_no_row_that_its_account_does_not_pay_for(
    place: Place, capsys: Capture, server: Server, elsewhere: Server, switched: int
) -> None:
    """A balancer goes on to another server after so many connections: 1 is of the price, 2 is of
    the rows, 3 of the charge.
    """
    before = scans(elsewhere)
    with relay(*[server.port] * switched, elsewhere.port) as balancer:
        code, sentence = spend(
            place, capsys, asking(place, "second", url_of(server, port=balancer.port))
        )
        assert balancer.taken > switched
    if switched == 1:
        assert (
            code == 2
            and "is not the one that its account was told by" in sentence
            and scans(elsewhere) == before
        ), sentence
        assert payer(asking(place, "third", url_of(elsewhere))) == "third"
    else:
        assert code == 0 and accounts(capsys) == {"first": 1.0}, sentence
        assert payer(asking(place, "third", url_of(elsewhere))) == "first", (
            "who paid when it was asked pays for both"
        )


# What is not known is said


def test_without_a_database_nothing_is_guessed(
    place: Place, capsys: Capture, server: Server
) -> None:
    gone = asking(place, "gone", url_of(server, port=free_port()))
    asking(place, "first", url_of(server, port=free_port()))
    for command in (
        ("protect", gone, "--epsilon", "1", "--dry-run"),
        ("protect", gone, "--epsilon", "1", "--out", str(place.root / "out.jsonl")),
    ):
        sentence = refusal(capsys, *command)
        assert sentence.startswith(
            "gone: no database answers at the address in DB_GONE (OperationalError)"
        )
        assert (
            sentence.endswith("before it does, nobody can tell which account pays for its rows")
            and "pw" not in sentence.split("in DB_GONE")[1]
        )
    out = said(capsys, "budget")
    assert (
        "first: no database answers at the address in DB_FIRST" in out
        and "so nobody can tell whether its cap is that of its account" in out
    )
    code, err = call_main(("budget", "first", "--json"), capsys)
    assert code == 0 and "so nobody can tell whether its cap is that of its account" in err
    del os.environ["DB_FIRST"]
    assert "first: DB_FIRST is not set" in said(capsys, "budget")


@pytest.mark.exhaustive
def test_a_plan_says_that_it_asked_no_database(
    place: Place, capsys: Capture, server: Server
) -> None:
    name = asking(place, "gone", url_of(server, port=free_port()))
    out = said(capsys, "plan", name, "--rows", "500", "--epsilons", "1")
    assert (
        "no database was asked: which account pays, and what it has left, is told by `dpicl "
        "protect gone --dry-run`" in out
    )


def test_a_price_reads_no_row(place: Place, capsys: Capture, server: Server) -> None:
    before = scans(server)
    assert payer(asking(place, "second", url_of(server, host="localhost"))) == "first"
    said(capsys, "budget")
    assert scans(server) == before


REFUSED = "second: the server at the address in DB_SECOND refuses the login (OperationalError)"
WRONG = {
    "no address": ("nonsense", "is no database address"),
    "two hosts in the place": ("postgresql://a:1,b:2/shop", "is no database address"),
    "another engine": ("mysql://h/shop", "could be written to"),
    "a role that is not there": (
        "postgresql://nobody:x@127.0.0.1:{port}/shop",
        REFUSED,
    ),
    "a wrong password": ("postgresql://me:pwd@127.0.0.1:{port}/shop", REFUSED),
    "no password": ("postgresql://me@127.0.0.1:{port}/shop", REFUSED),
    "a database that is not there": ("postgresql://me:pw@127.0.0.1:{port}/nothing", REFUSED),
    "a port where nobody listens": ("postgresql://me:pw@127.0.0.1:9/shop", "no database answers"),
    "letters in percent": ("postgresql://me:pw@127.0.0.1:{port}/%73hop", REFUSED),
    "an unknown parameter": (
        "postgresql://me:pw@127.0.0.1:{port}/shop?flavour=sweet",
        "no database answers",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_address_that_leads_nowhere_is_refused_in_one_sentence(
    place: Place, server: Server, case: str
) -> None:
    url, expected = WRONG[case]
    sentence = dry(asking(place, "second", url.format(port=server.port)))
    assert expected in sentence and "pw" not in sentence and "127.0.0.1" not in sentence


def test_a_shared_ledger_is_not_the_one_that_its_parameters_lead_away_from(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same fault, of the ledger that a contract names."""
    contract_of = (
        Settings.current()
        .declared("first")
        .model_copy(update={"ledger": "postgresql://db.example/budgets"})
    )
    for parameters in (
        "?dbname=mine",
        "?host=here",
        "?hostaddr=127.0.0.1",
        "?port=1",
        "?service=svc",
    ):
        settings = replace(
            Settings.current(), ledger=f"postgresql://db.example/budgets{parameters}"
        )
        with pytest.raises(
            LedgerRefusedError, match="in the ledger postgresql://db.example/budgets only"
        ):
            check_ledger(contract_of, settings)
    settings = replace(Settings.current(), ledger="postgresql://db.example/budgets?sslmode=require")
    check_ledger(contract_of, settings)
    for variable in ("PGHOSTADDR", "PGSERVICE"):
        with monkeypatch.context() as patch, pytest.raises(LedgerRefusedError, match="only"):
            patch.setenv(variable, "127.0.0.1")
            check_ledger(contract_of, settings)


# Mutants: each brings a fault back, and the tests above catch it


def _by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """An account is found by the spelling."""

    def spelt(query: QuerySource, _name: str) -> tuple[str]:
        url = make_url(os.environ[query.url_env])
        return (f"spelt:{url.host}:{url.port}/{url.database}",)

    monkeypatch.setattr(database, "database_addresses", spelt)


def _unqualified(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection's own settings say what the words mean."""
    monkeypatch.setattr(
        postgresql,
        "_WHICH",
        postgresql._WHICH.replace("pg_catalog.", "").replace("OPERATOR(=)", "="),
    )


@pytest.mark.parametrize(
    ("mutant", "way"),
    [
        (_by_its_address, "another database in the path"),
        (_by_its_address, "another host in the place"),
        (_by_its_address, "host and port in parameters"),
        (_unqualified, "names of its own first"),
    ],
)
def test_mutants_open_a_second_budget(
    place: Place, server: Server, monkeypatch: pytest.MonkeyPatch, mutant: Mutant, way: str
) -> None:
    mutant(monkeypatch)
    url = SPELLINGS[way].format(port=server.port, relay=0, admin="")
    assert payer(asking(place, "second", url)) == "second", (
        "the mutant, which the tests above refuse"
    )


def test_a_mutant_that_goes_by_the_database_s_name_forgets_what_a_renamed_one_spent(
    place: Place, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(server, "CREATE DATABASE named TEMPLATE decoy")
    monkeypatch.setattr(
        postgresql,
        "_WHICH",
        "SELECT (SELECT system_identifier FROM pg_control_system()), current_database(), "
        "current_database()",
    )
    assert payer(asking(place, "second", url_of(server, "named"))) == "second"
    execute(server, "ALTER DATABASE named RENAME TO otherwise")
    assert payer(asking(place, "third", url_of(server, "otherwise"))) == "third"
    execute(server, "DROP DATABASE otherwise")


def test_a_mutant_that_does_not_ask_the_connection_that_reads_reads_another_s_rows(
    place: Place,
    capsys: Capture,
    server: Server,
    elsewhere: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(private_rows, "check_payer", lambda contract_of, settings, addresses: None)
    before = scans(elsewhere)
    with relay(server.port, elsewhere.port, server.port) as balancer:
        spend(place, capsys, asking(place, "second", url_of(server, port=balancer.port)))
    until(lambda: scans(elsewhere) > before, 20, "the statistics")


def test_the_first_database_of_an_account_that_is_open_pays_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (small.frame(rows) for rows in (small.ROWS, small.ROWS[:-1]))
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        second.astype({"age": "int64"}).to_sql("shop", shop, index=False)
    monkeypatch.setenv("SHOP_URL", f"sqlite:///{tmp_path / 'shop.db'}")
    query = dpicl.Query(url_env="SHOP_URL", sql="SELECT * FROM shop ORDER BY age")
    usual = {"epsilon": 1, "account": "shop", "budget": 5, "anyway": True}
    session = dpicl.Session(home=tmp_path / "home")
    for rows in (first, query):
        session.protect(rows, small.SCHEMA, **usual)
    (budget,) = session.budget()
    assert budget.account == "shop" and budget.epsilon_spent == pytest.approx(2)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("the database system is starting up", "no database answers"),
        ("sorry, too many clients already", "no database answers"),
        ('role "me" does not exist', "refuses the login"),
    ],
)
def test_a_server_that_lets_nobody_in_now_does_not_refuse_the_login(
    place: Place, message: str, expected: str
) -> None:
    """By what PostgreSQL sends in place of a connection, which is tried again after a while."""
    fields = b"SFATAL\0VFATAL\0C57P03\0M" + message.encode() + b"\0\0"
    refusal = b"E" + (len(fields) + 4).to_bytes(4, "big") + fields

    def answered() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    if connection.recv(4096)[4:8] != (3 << 16).to_bytes(4, "big"):
                        connection.sendall(b"N")  # no TLS, no GSS
                        connection.recv(4096)
                    connection.sendall(refusal)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answered, daemon=True).start()
        port = listener.getsockname()[1]
        url = f"postgresql://me:pw@127.0.0.1:{port}/shop?sslmode=disable&gssencmode=disable"
        assert expected in dry(asking(place, "second", url))
