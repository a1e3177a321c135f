"""The crash matrix on a handful of schedules, and protocols with one fault each, which it must
catch.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

import dpicl.release.releases
import dpicl.runs.draw
from dpicl.home.accounts import open_ledger
from dpicl.ledger import Ledger
from dpicl.release.releases import NamedRelease, Reserved
from dpicl.runs.draw import releases_of
from dpicl.runs.run_folder import UnitFolder
from lab.benchmarks.crash.matrix import cluster_runner, forks, in_one_process, play, scratch
from lab.benchmarks.crash.schedules import Rig, Schedule, Verdict, draw_schedules, rig
from lab.benchmarks.crash.steps import STEPS

FEWER = (
    "before reserve",
    "reserve committed",
    "rows read",
    "token kept",
    "draft written",
    "publish committed",
    "after read",
)
"""Steps on both sides of a charge, of a draw and of a publication."""
TWINS = ("first", "second", "second")


@pytest.fixture(scope="module")
def made() -> Iterator[Rig]:
    with scratch() as folder, rig(folder / "place") as made, forks():
        yield made


def sound(verdict: Verdict) -> Verdict:
    """The verdict on a schedule that did no harm, with what this one killed."""
    return Verdict(verdict.kills, 0, 0, 0, 0, verdict.faults, verdict.unpublished, verdict.drafts)


def test_schedules_are_the_same_for_the_same_seed_and_begin_at_every_step() -> None:
    first = list(draw_schedules(4))
    assert first == list(draw_schedules(4)) != list(draw_schedules(4, seed=1))
    assert [schedule.deaths[0][0] for schedule in first[: len(STEPS)]] == list(STEPS)
    assert {schedule.method for schedule in first} == {
        "ldp_tabicl",
        "gdp_tabicl",
        "few_shot_generation",
        "dp_icl",
    }


@pytest.mark.parametrize(
    "steps", [FEWER, pytest.param(STEPS, marks=pytest.mark.exhaustive)], ids=["fewer", "all"]
)
def test_threads_killed_at_every_step_do_no_harm(made: Rig, steps: tuple[str, ...]) -> None:
    schedules = [
        replace(schedule, deaths=schedule.deaths[:1])
        for schedule in draw_schedules(1, seed=7, steps=steps)
    ]
    verdicts = play(made, schedules, in_one_process)
    assert verdicts == [sound(verdict) for verdict in verdicts]
    assert all(verdict.kills[step] for verdict, step in zip(verdicts, steps, strict=True))
    assert sum(verdict.unpublished for verdict in verdicts) > 0


@pytest.mark.exhaustive
def test_killed_workers_of_a_cluster_do_no_harm(made: Rig) -> None:
    with cluster_runner(made) as runner:
        verdicts = play(
            made, draw_schedules(1, seed=8, steps=("drawn", "publish committed")), runner
        )
    assert verdicts == [sound(verdict) for verdict in verdicts]
    assert all(verdict.kills for verdict in verdicts)


def last_wins() -> None:
    """Publish without compare-and-set, and draw again at every try."""
    reserve = Ledger.reserve
    Ledger.reserve = lambda ledger, release, **options: replace(
        reserve(ledger, release, **options), artefact_sha256=None
    )  # type: ignore[method-assign]

    def publish(ledger: Ledger, release_id: str, artefact_sha256: str) -> str:
        won = {"artefact_sha256": artefact_sha256, "published_utc": "now"}
        with ledger._chain.changing() as change:
            change.append("published", {"release_id": release_id, **won})
        return artefact_sha256

    def publish_drafts(folder: UnitFolder, drafts: Mapping[str, bytes]) -> dict[str, bytes]:
        with open_ledger(folder.settings) as ledger:
            releases = releases_of(ledger, folder)
            for key, content in drafts.items():
                releases[key].publish(ledger, content)
            return {key: named.read(ledger) for key, named in releases.items()}

    Ledger.publish = publish  # type: ignore[method-assign]
    dpicl.runs.draw.publish_drafts = publish_drafts


def draw_first() -> None:
    """Draw, and only then charge."""
    reserve = NamedRelease.reserve
    NamedRelease.reserve = lambda _named, _ledger: Reserved(True, False)  # type: ignore[method-assign]

    def publish_drafts(folder: UnitFolder, drafts: Mapping[str, bytes]) -> dict[str, bytes]:
        with open_ledger(folder.settings) as ledger:
            releases = releases_of(ledger, folder)
            for key, named in releases.items():
                if reserve(named, ledger).is_missing:
                    named.publish(ledger, drafts[key])
            return {key: named.read(ledger) for key, named in releases.items()}

    dpicl.runs.draw.publish_drafts = publish_drafts


def charge_every_try() -> None:
    """Name every try of a release anew."""
    named = dpicl.release.releases.release_id
    dpicl.release.releases.release_id = lambda key, described, **about: named(
        key, described, **{**about, "period": secrets.token_hex(4)}
    )


MUTANTS = {
    last_wins: "second_draws",
    draw_first: "under_accounted",
    charge_every_try: "overcharged",
}


SCHEDULES = [
    Schedule(f"mutant-{number}", "ldp_tabicl", (("after read", number % 2),), TWINS, TWINS)
    for number in range(3)
]


@pytest.mark.quick("draw_first")
@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
def test_a_broken_protocol_is_caught(made: Rig, mutate: Callable[[], None]) -> None:
    assert (
        sum(
            getattr(verdict, MUTANTS[mutate])
            for verdict in play(made, SCHEDULES, in_one_process, mutate=mutate)
        )
        > 0
    )


@pytest.mark.exhaustive
def test_the_protocol_that_is_not_broken_harms_nothing_there(made: Rig) -> None:
    verdicts = play(made, SCHEDULES, in_one_process)
    assert verdicts == [sound(verdict) for verdict in verdicts]
