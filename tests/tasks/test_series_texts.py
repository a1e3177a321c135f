"""Texts that arrive period by period: each period's are written from alone, and the year costs what
one period does.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import dpicl
from dpicl.contract import TextContract
from dpicl.contract.load import parse_contract
from dpicl.data.text_files import load_texts, split_texts
from dpicl.ground.errors import (
    BudgetError,
    DataError,
    DeclarationError,
    LedgerError,
    LedgerRefusedError,
    ParameterError,
    PrivacyError,
    SourceError,
    StageFailed,
)
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.ledger import Ledger
from dpicl.methods import METHODS, few_shot_generation, grid, unit_of
from dpicl.methods.options import FewShotOptions
from dpicl.release import one_release
from dpicl.release import texts as text_release
from dpicl.release.pipelines import Options
from dpicl.runs import draw as generate_stage
from dpicl.runs import plan as planning
from dpicl.runs.forecast import series_forecasts
from tests.harness import Place, grid_of, letters, run_here
from tests.library.series_contracts import after
from tests.library.text_contracts import lines, records

NAME, MONTHS = "notes", 6
PERIODS = [f"2026-{month:02}" for month in range(1, MONTHS + 1)]
HORIZON = {"every": "month", "horizon": MONTHS, "first": "2026-01-01"}


def tree(*, undelivered: str | None = None) -> dict[str, Any]:
    content = letters(NAME, private=True)
    content["source"] = {
        "deliveries": NAME,
        "queries": {"file": "public.jsonl"},
        **({"undelivered": undelivered} if undelivered else {}),
    }
    content["version"] = 2
    content["releases"] = HORIZON
    content["privacy"] = {"budget": {"epsilon": 5, "delta": 0.01}}
    del content["ensemble"]
    return content


def declare(place: Place, content: dict[str, Any]) -> None:
    (place.root / "contracts" / "texts" / f"{NAME}.yaml").write_text(
        yaml.safe_dump(content, sort_keys=False)
    )


def delivery(place: Place, number: int) -> Path:
    """The file of a period."""
    return place.root / "data" / NAME / f"{PERIODS[number]}.jsonl"


def put(place: Place, period: str, count: int, suffix: str = ".jsonl") -> Path:
    folder = place.root / "data" / NAME
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{period}{suffix}"
    path.write_bytes(lines(records(count)) if count else b"")
    return path


@pytest.fixture
def place(place: Place) -> Place:
    declare(place, tree())
    (place.root / "data" / "public.jsonl").write_bytes(lines(records(4)))
    for period in PERIODS[:4]:
        put(place, period, 40)
    return place


def made(
    period: str | None, *, epsilon: float = 4, generator: str | None = "fake", **how: Any
) -> dpicl.Release:
    return dpicl.Session().protect(
        NAME, epsilon=epsilon, shots=2, period=period, generator=generator, **how
    )


def texts(release: dpicl.Release) -> list[Any]:
    return release.arrow().to_pylist()


def spent() -> tuple[float, int]:
    with open_ledger(Settings.current()) as ledger:
        ledger.verify()
        entries = ledger.entries(NAME)
        return ledger.spent(NAME).epsilon if entries else 0.0, len(entries)


def at_day(monkeypatch: pytest.MonkeyPatch, day: int) -> None:
    for module in (planning, one_release, text_release):
        monkeypatch.setattr(module, "clock", lambda: after(day))


def test_all_periods_cost_what_the_first_one_does(place: Place) -> None:
    first = made(PERIODS[0])
    # the horizon and its first period
    assert spent() == (pytest.approx(4, rel=0.01), 2)
    paid = spent()[0]
    of_all = [texts(first), *(texts(made(period)) for period in PERIODS[1:4])]
    assert any(one != of_all[0] for one in of_all)
    assert spent() == (paid, 5)
    assert texts(made(PERIODS[0], generator=None)) == texts(first)
    assert spent()[1] == 5
    assert first.certificate.privacy_loss.privacy_unit == "row"
    of_both = [first.certificate, made(PERIODS[1]).certificate]
    assert len({one.evidence.release_id for one in of_both}) == 2
    # two periods may draw the same few letters
    assert (of_both[0].evidence.artefact_sha256 == of_both[1].evidence.artefact_sha256) is (
        texts(made(PERIODS[1])) == texts(first)
    )
    assert [one.model.period for one in of_both] == [
        f"{period}, of 2026-01 to 2026-06" for period in PERIODS[:2]
    ]
    assert of_both[0].model.release_type.startswith(
        "Texts of 6 periods, one every month, each written from its own delivery alone"
    )
    assert (
        "So are the sets of all 6 periods from 2026-01 to 2026-06 together, charged once."
        in first.statement
    )
    with pytest.raises(BudgetError):
        made(PERIODS[1], epsilon=4.5)


def test_a_link_is_no_delivery(place: Place) -> None:
    """By one, the texts of a file would be of two periods, or of another account too."""
    delivery(place, 5).symlink_to(delivery(place, 0))
    with pytest.raises(SourceError, match=f"folder {NAME} holds links"):
        made(PERIODS[0])
    assert spent()[1] == 0


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_a_file_without_a_text_is_a_delivery_in_any_form(place: Place, content: bytes) -> None:
    delivery(place, 0).unlink()
    delivery(place, 0).with_suffix(".csv").write_bytes(content)
    assert len(texts(made(PERIODS[0]))) == 2


def test_a_period_is_written_from_the_texts_of_its_file_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of all other periods may hold anything, or be gone."""
    for period, count in zip(PERIODS[:4], (40, 41, 42, 43), strict=True):
        put(place, period, count)
    put(place, PERIODS[0], 1).write_text("no records")
    delivery(place, 3).unlink()
    seen: list[int] = []
    write = few_shot_generation.write

    def seeing(train: Any, *arguments: Any, **how: Any) -> Any:
        seen.append(train.row_count)
        return write(train, *arguments, **how)

    monkeypatch.setattr(generate_stage.few_shot_generation, "write", seeing)
    made(PERIODS[1])
    made(PERIODS[2])
    assert seen == [41, 42]


def test_a_period_stands_whatever_becomes_of_its_file(place: Place) -> None:
    stands = texts(made(PERIODS[1]))
    put(place, PERIODS[1], 7)
    assert texts(made(PERIODS[1])) == stands
    delivery(place, 1).unlink()
    assert texts(made(PERIODS[1])) == stands and spent()[1] == 2


def test_a_period_that_is_not_delivered_is_refused_and_one_without_texts_is_written(
    place: Place,
) -> None:
    with pytest.raises(
        SourceError,
        match=r"notes: 2026-05 is not delivered yet; expected notes/2026-05 with \.jsonl or",
    ):
        made(PERIODS[4])
    with open_ledger(Settings.current()) as ledger:
        assert not ledger.entries(NAME)
    put(place, PERIODS[4], 0)
    assert len(texts(made(PERIODS[4]))) == 2
    declare(place, tree(undelivered="empty"))
    with open_ledger(Settings.current()) as ledger:
        ledger.set_cap(NAME, 20.0, 0.02)
    # another contract, and so another horizon
    assert len(texts(made(PERIODS[5]))) == 2


def test_a_period_that_is_not_over_is_refused_before_anything_is_charged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_day(monkeypatch, 3)  # of March
    for period in (PERIODS[2], PERIODS[3]):
        with pytest.raises(ParameterError, match="a period of notes that is over in UTC"):
            made(period)
    with pytest.raises(ParameterError, match="one of the horizon's 6"):
        made("2027-01")
    assert "2026-02" in str(made(None).published.facts.period)
    assert spent()[1] == 2


@pytest.mark.exhaustive
def test_a_run_writes_the_last_period_that_is_over_and_asks_with_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_day(monkeypatch, 40)  # of April
    how: dict[str, Any] = grid_of(NAME, epsilons=[4])
    run_here("march", "few-shot-generation", **how)
    paid = spent()
    assert paid == (pytest.approx(4, rel=0.01), 2)
    at_day(monkeypatch, 70)  # of May
    run_here("april", "few-shot-generation", **how)
    assert spent() == (paid[0], 3)
    (stored,) = json.loads(
        next(place.run("april").glob("units/*/released_texts.json")).read_text()
    ).values()
    assert [one["text"] for one in texts(made("2026-04", generator=None))] == [
        one["text"] for one in stored
    ]
    ((told,), _) = series_forecasts(Settings.current())
    assert (told.first, told.last, told.released) == ("2026-01", "2026-06", 2)


def test_a_horizon_of_texts_does_not_go_on_in_a_ledger_that_came_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpicl.installation.restore import adopt

    stands = texts(made(PERIODS[0]))
    ours = Settings.current()
    for name in ("ledger.db", "ledger.anchor.json"):
        (ours.home / name).unlink()
    adopt(ours)
    with open_ledger(ours) as ledger:
        ledger.set_cap(NAME, 5.0, 0.01)
    assert texts(made(PERIODS[0], generator=None)) == stands
    with pytest.raises(LedgerRefusedError, match="came back from a backup or from receipts"):
        made(PERIODS[1])


@pytest.mark.quick("publish-dies1")
@pytest.mark.parametrize(("step", "dies"), [("reserve", (0, 1)), ("publish", (0, 0))])
def test_a_period_that_was_killed_is_drawn_once_and_charged_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, step: str, dies: tuple[int, int]
) -> None:
    """After the horizon's charge, and after a period's."""

    class KilledError(Exception):
        pass

    for period, calls in zip(PERIODS, dies, strict=False):
        right, left = getattr(Ledger, step), [calls]

        def killed(*arguments: Any, right: Any = right, left: list[int] = left, **how: Any) -> Any:
            answer = right(*arguments, **how)
            left[0] -= 1
            if left[0] < 0:
                raise KilledError
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(Ledger, step, killed)
            with pytest.raises(StageFailed, match="KilledError"):
                made(period)
        stands = texts(made(period))
        assert texts(made(period)) == stands
    assert spent() == (pytest.approx(4, rel=0.01), 3)


_TEXTS = st.lists(st.sampled_from(records(6)), max_size=3)


@settings(max_examples=25, deadline=None)
@given(
    deliveries=st.dictionaries(st.sampled_from(PERIODS), _TEXTS),
    at=st.sampled_from(PERIODS),
    new=st.sampled_from(records(6)),
)
def test_a_text_more_in_a_file_is_a_text_more_of_its_period_and_of_no_other(
    tmp_path_factory: pytest.TempPathFactory,
    deliveries: dict[str, list[Any]],
    at: str,
    new: dict[str, Any],
) -> None:
    """What each period's mechanism gets: one row in one of them, by which all of them cost what one
    does.
    """
    contract = parse_contract(tree(undelivered="empty"), "notes.yaml")
    assert isinstance(contract, TextContract)

    def arrived(of: dict[str, list[Any]]) -> dict[str, Counter[tuple[str, str]]]:
        root = tmp_path_factory.mktemp("texts")
        (root / NAME).mkdir()
        (root / "public.jsonl").write_bytes(lines(records(4)))
        for period, own in of.items():
            (root / NAME / f"{period}.jsonl").write_bytes(lines(own))
        tables = {
            period: split_texts(
                load_texts(contract, data_folder=root, period=period), contract
            ).train.data
            for period in PERIODS
        }
        return {
            period: Counter((row["label"], row["text"]) for row in table.to_pylist())
            for period, table in tables.items()
        }

    more, before = arrived({**deliveries, at: [*deliveries.get(at, []), new]}), arrived(deliveries)
    assert {period: (more[period] - before[period]).total() for period in PERIODS} == {
        period: int(period == at) for period in PERIODS
    }
    assert all(not before[period] - more[period] for period in PERIODS)


@pytest.mark.parametrize(
    "options",
    [{}, {"batches": "fixed"}, {"mechanism": "invisible-ink", "batches": "fixed", "voters": 2}],
)
def test_a_horizon_costs_what_the_same_release_of_one_file_does(options: dict[str, Any]) -> None:
    """Whose price the oracles compare with another accountant's."""
    content, how = tree(), {"epsilons": (2.0,), "shots": (2,)}
    one = {
        **content,
        "source": {"train": {"file": "t.jsonl"}, "queries": {"file": "public.jsonl"}},
        "releases": {},
    }
    prices = []
    for stated in (content, one):
        contract = parse_contract(stated, "notes.yaml")
        unit = unit_of(
            "few_shot_generation",
            NAME,
            0,
            how["epsilons"],
            how["shots"],
            (),
            False,
            Options(few_shot_generation=FewShotOptions.model_validate(options)),
        )
        (cost,) = grid.prices(METHODS["few_shot_generation"], contract, unit).values()
        prices.append(cost.charged)
    assert prices[0] == prices[1]


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"source": {"train": {"file": "t.jsonl"}}}, "source.deliveries: is missing"),
        ({"releases": {"every": "month"}}, "source.deliveries: has no meaning without a horizon"),
        ({"ensemble": {"subsets": 2, "delta": "1/100"}}, "`generation` alone"),
        (
            {"privacy": {"neighbours": "replace-one", "budget": {"epsilon": 5, "delta": 0.01}}},
            "a text that is replaced may come in another period",
        ),
        (
            {"privacy": {"budget": {"benchmark": True}}},
            "is missing; expected a file of held-out texts",
        ),
        (
            {"source": {"train": {"file": "t.jsonl"}, "undelivered": "empty"}},
            "source.undelivered: has no meaning without",
        ),
    ],
)
def test_what_a_contract_of_periods_may_not_say(changes: dict[str, Any], refused: str) -> None:
    with pytest.raises(DeclarationError, match=refused):
        parse_contract({**tree(), **changes}, "notes.yaml")


def test_a_delivery_that_breaks_a_rule_is_refused_without_its_text(place: Place) -> None:
    content = tree()
    declare(place, {**content, "source": {**content["source"], "invalid": "refuse"}})
    put(place, PERIODS[0], 3).write_text('{"class": "odd", "head": "secret", "body": "secret"}\n')
    with pytest.raises(DataError) as told:
        made(PERIODS[0])
    assert "secret" not in str(told.value) and "odd" not in str(told.value)
    with pytest.raises((PrivacyError, ParameterError)):
        made(PERIODS[0], method="dp_icl")
    with pytest.raises(ParameterError, match="window"):
        made(PERIODS[0], window=2)
    with pytest.raises(LedgerError):
        made(PERIODS[1], generator=None)
    with pytest.raises(SourceError, match="expected the release of a period"):
        load_texts(Settings.current().texts(NAME), data_folder=Settings.current().data)
