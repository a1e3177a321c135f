"""Rows with marked values and secrets go in; outside the private folder nobody ever sees them
again.

All flows run first, well and badly, and leak a few other values on purpose; then everything that
they left is searched. A value that was let out and not found would mean a blind search.
"""

from __future__ import annotations

import base64
import gzip
import pickle
import stat
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpicl.runs.stage import VERDICTS
from tests.flows.aftermath import SPOILT, Aftermath, everything_done
from tests.flows.planted import (
    CANARIES,
    CANARY_ROWS,
    INTEGERS,
    MUTANTS,
    OUTSIDE,
    REALS,
    STAGES,
    WORDS,
    fault,
    table,
)
from tests.leaks import Search, files, hits


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    """What all flows left behind."""
    with everything_done(tmp_path_factory.mktemp("leaks") / "p") as found:
        yield found


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"a": INTEGERS, "b": REALS, "c": WORDS}),
        tmp_path / "x.parquet",
        compression="zstd",
    )
    np.savez(tmp_path / "x.npz", a=np.array(INTEGERS), b=np.array(REALS))
    (tmp_path / "x.csv").write_text(table())
    found = hits(files([tmp_path]), CANARIES)
    assert len(found) == 3 * CANARY_ROWS + 2 * CANARY_ROWS + 3 * CANARY_ROWS


@pytest.mark.parametrize("value", [INTEGERS[0], REALS[0], WORDS[0]])
def test_the_search_finds_what_is_written_otherwise(value: object) -> None:
    text, row = str(value).encode(), {"row": [value, *range(30)]}
    written = {
        "hexadecimal": text.hex().encode(),
        **{
            f"base64 {before}": base64.b64encode(bytes(before) + text + b"!") for before in range(3)
        },
        "address": base64.urlsafe_b64encode(b"\xff\xfe\xfd" + text),
        "pickled": pickle.dumps(row),
        "packed": b"before" + gzip.compress(text * 3) + b"after",
        "stored as a result": base64.b64encode(gzip.compress(pickle.dumps(row))),
        "beyond the first piece": bytes(1 << 22) + text,
        "across two pieces": bytes((1 << 22) - 3) + text,
    }
    assert hits(written, CANARIES) == [f"{value!r} in {name}" for name in written]


@pytest.mark.exhaustive
def test_the_flows_ended_as_they_should(aftermath: Aftermath) -> None:
    assert aftermath.private.returncode == 0, aftermath.private.stderr
    outcomes = aftermath.outcomes
    assert (outcomes["ldp"], outcomes["gdp"], outcomes["few-shot"]) == (
        "canaries-ldp",
        "canaries-gdp",
        "canaries-few-shot",
    )
    assert outcomes["ensembles"] == "canaries-ensembles"
    assert "1 part failed, first dp_icl__fault_consult" in outcomes["asked"]
    assert "1 part failed, first few_shot_generation__fault_generate" in outcomes["texts"]
    assert "parts failed, first spoilt: spoilt.csv: column 'colour'" in outcomes["faults"]
    assert "1 part failed, first gdp_tabicl__fault_baselines" in outcomes["workers"]
    # no worker died
    assert (aftermath.world.root / "dask" / "died").exists()
    assert (
        len(list(aftermath.world.run("canaries-workers").glob("units/*doomed*/results.json"))) == 1
    )


@pytest.mark.exhaustive
def test_every_stage_failed_and_told_no_more_than_where(aftermath: Aftermath) -> None:
    states = aftermath.left["task_runs"].decode()
    for stage in (*STAGES, "baselines", "generate", "consult"):
        assert f"{stage}: ValueError at faulty" in states, stage
    assert "outside: column 'age': breaks in_bounds" in states
    assert (
        "raising: column 'colour': cannot be evaluated by your own expect_column_max_to_be_between"
        in states
    )


@pytest.mark.exhaustive
def test_no_canary_is_left_anywhere(aftermath: Aftermath) -> None:
    assert {"flow_runs", "artifacts", "logs", "events", "ledger"} <= aftermath.left.keys()
    pages = [name for name in aftermath.left if "/expectations/" in name and name.endswith(".html")]
    # Data Docs stand with what is public of benchmarks alone
    assert {Path(name).stem for name in pages} == {"doomed", fault("baselines")}
    assert not hits(aftermath.left, [*CANARIES, SPOILT])


@pytest.mark.exhaustive
def test_no_canary_went_over_the_wire(aftermath: Aftermath) -> None:
    assert sum(map(len, aftermath.wires.values())) > 1 << 20
    # the wires were not recorded
    assert hits(aftermath.wires, ["canaries-private"])
    assert not hits(aftermath.wires, [*CANARIES, SPOILT])


@pytest.mark.exhaustive
def test_no_secret_is_left_anywhere(aftermath: Aftermath) -> None:
    key = (aftermath.world.home / "keys" / "ledger.key").read_bytes()
    secrets = [key, aftermath.password, aftermath.world.secret]
    assert not hits(aftermath.left, secrets)
    # only the server's own secret is told to the server
    assert not hits(aftermath.wires, secrets[:2])


@pytest.mark.exhaustive
def test_what_was_let_out_on_purpose_is_found(aftermath: Aftermath) -> None:
    search, places = Search(MUTANTS.values()), defaultdict[object, set[str]](set)
    for name, data in {**aftermath.left, **aftermath.wires}.items():
        for value in search.found_in(data):
            places[value].add(Path(name).name.split(" ")[0])
    where = {kind: places[value] for kind, value in MUTANTS.items()}
    assert {"flow_runs", "prefect.db", "wire"} <= where["parameter"]
    assert {"task_runs", "prefect.db", "wire"} <= where["exception"]
    assert {"artifacts", "prefect.db", "wire"} <= where["artifact"]
    assert {"done"} <= where["printed"]
    assert {"workers.log", "wire"} <= where["on a worker"]
    stored = {path.name for path in (aftermath.world.root / "prefect" / "storage").iterdir()}
    assert where["result"] & stored


@pytest.mark.exhaustive
def test_nobody_is_called_but_this_machine(aftermath: Aftermath) -> None:
    hosts = [address[0] for address in aftermath.called if isinstance(address, tuple)]
    assert hosts.count("127.0.0.1") > 20
    # only the call on purpose
    assert {host for host in hosts if host not in ("127.0.0.1", "::1")} == {OUTSIDE[0]}


@pytest.mark.exhaustive
def test_only_the_owner_may_read_what_failed_runs_keep(aftermath: Aftermath) -> None:
    private = aftermath.world.home / "private"
    kept = list(private.rglob("*"))
    assert any("canaries-faults" in str(path) for path in kept)
    assert not any("canaries-private" in str(path) for path in kept if VERDICTS not in path.parts)
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (private, *kept) if path.is_dir()} == {
        0o700
    }
