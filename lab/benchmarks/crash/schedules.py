"""Random schedules of deaths, the tiny installation that they happen to, and the verdict on what is
left.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

from dpicl.ground.errors import LedgerError
from dpicl.home.accounts import ledger_key, open_ledger
from dpicl.home.settings import Settings
from dpicl.ledger import Ledger
from dpicl.methods import METHODS as REGISTERED
from dpicl.release.releases import NamedRelease
from dpicl.runs.draw import releases_of
from dpicl.runs.plan import make_plan
from dpicl.runs.run_folder import UnitFolder, read_plan
from lab.benchmarks.crash.steps import STAGES, STEPS
from tasks.stages import ingest, split
from tests.harness import SMALL, Place, install, install_texts, letters, new_place, shop, shop_rows
from tests.library.text_contracts import lines, records

RUNS = ("first", "second", "rescue")
METHODS = tuple(STAGES)
GATHERED = {name: REGISTERED[name].artefact for name in METHODS}
DATASET = {
    "ldp_tabicl": "shop",
    "gdp_tabicl": "shop",
    "few_shot_generation": "letters",
    "dp_icl": "letters",
}
_REACHED_ONCE = ("rows read", "gathered")
"""By a single twin; every other step is reached for each of the two releases."""
_ONLY = {"token kept": "few_shot_generation", "votes kept": "dp_icl"}
_EXPONENTIAL = {
    "few_shot_generation": {"mechanism": "exponential"},
    "dp_icl": {"noise": "exponential"},
}
"""Gaussian noise would be priced again after every death."""
_GRID = {**SMALL, "epsilons": ["1", "2"], "shots": [1], "options": _EXPONENTIAL}


@dataclass(frozen=True)
class Schedule:
    """Who works, who dies where, and who goes on.

    Attributes:
        deaths: steps with how many get past each before it kills, in the order they are dealt.
        twins: the run that each twin works for; twins of one run are one task handed out twice.
        rescuers: runs that go on after the first death; with a cluster, beside what it resubmits.
    """

    name: str
    method: str
    deaths: tuple[tuple[str, int], ...]
    twins: tuple[str, ...]
    rescuers: tuple[str, ...]

    @property
    def unit_key(self) -> str:
        """The unit that every twin releases."""
        return f"{self.method}__{DATASET[self.method]}__seed0"


def draw_schedules(
    count: int, *, seed: int = 0, steps: tuple[str, ...] = STEPS
) -> Iterator[Schedule]:
    """`count` schedules for every step as the first death; the same for the same seed."""
    for number in range(count):
        for step in steps:
            rng = random.Random(f"{seed} {step} {number}")
            passed = 0 if step in _REACHED_ONCE else rng.randrange(2)
            more = [(rng.choice(STEPS), rng.randrange(3)) for _ in range(rng.choice((0, 0, 1, 2)))]
            twins = tuple(rng.choice(RUNS[:2]) for _ in range(rng.choice((1, 2, 2, 3))))
            rescuers = rng.choice((twins, ("rescue",), (*twins, "rescue")))
            method = _ONLY.get(step, METHODS[(number + STEPS.index(step)) % len(METHODS)])
            yield Schedule(
                f"{step.replace(' ', '-')}-{number}",
                method,
                ((step, passed), *more),
                twins,
                rescuers,
            )


@dataclass(frozen=True)
class Rig:
    """A place with planned runs over split rows, for schedules to start from as copies."""

    place: Place
    folders: dict[str, UnitFolder]

    def start(self, schedule: Schedule, root: Path, url: str | None = None) -> Scene:
        """A copy of the place for one schedule, its deaths dealt; the ledger is at `url`, or in the
        copy.
        """
        shutil.copytree(
            self.place.home,
            root / "home",
            ignore=shutil.ignore_patterns("ledger.db*", "ledger.anchor*") if url else None,
        )
        (root / "deaths").mkdir()
        turns: Counter[str] = Counter()
        for step, passed in schedule.deaths:
            for sign in (*["pass"] * passed, "kill"):
                (root / "deaths" / f"{step}.{turns[step]:02}.{sign}").touch()
                turns[step] += 1
        return Scene(
            schedule,
            root,
            url or f"sqlite:///{root / 'home' / 'ledger.db'}",
            self.place.environment,
            self.folders[schedule.method],
        )


@contextmanager
def rig(root: Path) -> Iterator[Rig]:
    """Plan, ingest and split once; the ledger knows the accounts, and has no entry."""
    place = new_place(root)
    install(place, shop(private=True), shop_rows(40))
    texts = letters(private=True)
    # without a delta, what is spent is the sum of what is charged
    texts["privacy"]["budget"] = {"epsilon": 1000}
    install_texts(place, texts, lines(records(40)), lines(records(4)))
    folders = {}
    with place.entered(TMPDIR=tempfile.gettempdir()):
        os.environ.pop("DPICL_LEDGER", None)
        settings = Settings.from_environment()
        for name, (method, dataset) in product(RUNS, DATASET.items()):
            run = make_plan(
                "private", {**_GRID, "datasets": [dataset], "methods": [method]}, f"{name}-{method}"
            )
            ingest.fn(str(run), dataset)
            split.fn(str(run), dataset)
            (unit,) = read_plan(run).units.values()
            folders[method] = UnitFolder(run, unit, settings.declared(dataset), settings)
        with open_ledger(settings):
            pass
    yield Rig(place, folders)


@dataclass(frozen=True)
class Verdict:
    """What one schedule left behind; every count but `kills` has zero as its right value.

    `unpublished` is the stated over-charge, charged at some death and not published by then.
    """

    kills: Counter[str]
    second_draws: int
    under_accounted: int
    overcharged: int
    unrecovered: int
    faults: Counter[str]
    unpublished: int = 0
    drafts: int = 0

    @property
    def harm(self) -> int:
        """All that must not be."""
        return self.second_draws + self.under_accounted + self.overcharged + self.unrecovered


@dataclass(frozen=True)
class Scene:
    """One schedule under way: its folder, its ledger and its releases."""

    schedule: Schedule
    root: Path
    url: str
    base: dict[str, str]
    planned: UnitFolder

    @property
    def environment(self) -> dict[str, str]:
        """What its processes need."""
        # all are copies of one home
        own = {
            "DPICL_HOME": str(self.root / "home"),
            "XDG_CONFIG_HOME": str(self.root / "settings"),
        }
        return {**self.base, **own, "DPICL_LEDGER": self.url}

    def twin(self, run: str) -> tuple[str, str, str]:
        """Arguments of `release` for one run."""
        return str(self._run(run)), self.schedule.unit_key, self.schedule.method

    def names(self, kind: str) -> list[str]:
        """Marks that processes left."""
        return [path.name for path in (self.root / kind).glob("*")]

    def note(self, fault: str) -> None:
        """Keep a fault that only this process knows of."""
        (self.root / "faults").mkdir(exist_ok=True)
        (self.root / "faults" / secrets.token_hex(8)).write_text(fault)

    def observe(self, *, last: bool = False) -> tuple[dict[str, str], int]:
        """Read whatever is published, like any later reader; gives release to hash, and the count
        of unpublished charges.
        """
        (self.root / "seen").mkdir(exist_ok=True)
        read = {}
        with self._ledger() as ledger:
            releases = self._releases(ledger)
            for named in releases.values():
                name = named.charge.release_id
                try:
                    read[name] = hashlib.sha256(named.read(ledger)).hexdigest()
                except LedgerError as error:
                    if last:
                        self.note(f"never readable: {error}")
                    continue
                (self.root / "seen" / f"{name}.{read[name]}").touch()
            charged = [entry.artefact_sha256 for entry in ledger.entries(self._account(releases))]
        return read, charged.count(None)

    def judge(self, runs: set[str], unpublished: int = 0, failed: int = 0) -> Verdict:
        """Compare ledger, marks and files after the last resume; `runs` must have ended.

        A ledger that lost what it had committed accounts for too little, and nothing can go on with
        it.
        """
        try:
            return self._judge(runs, unpublished, failed)
        except LedgerError:
            return Verdict(
                Counter(name.split(".")[0] for name in self.names("kills")), 0, 1, 0, 1, Counter()
            )

    def _judge(self, runs: set[str], unpublished: int, failed: int) -> Verdict:
        read, _ = self.observe(last=True)
        with self._ledger() as ledger:
            ledger.verify()
            releases = self._releases(ledger)
            account = self._account(releases)
            entries, spent = (
                [entry.release.release_id for entry in ledger.entries(account)],
                ledger.spent(account).epsilon,
            )
        costs = {
            named.charge.release_id: Fraction(named.charge.guarantee.epsilon)
            for named in releases.values()
        }
        drawn = ({name.split(".")[0] for name in self.names("drawn")} | read.keys()) & costs.keys()
        free = {name for name in self.names("drawn") if name.endswith(".free")}
        stated = Counter(entries) - Counter(set(entries) & costs.keys())
        gathered = [
            self._run(run) / "units" / self.schedule.unit_key / GATHERED[self.schedule.method]
            for run in sorted(runs)
        ]
        return Verdict(
            kills=Counter(name.split(".")[0] for name in self.names("kills")),
            second_draws=self._second_draws(
                [path.read_bytes() for path in gathered if path.exists()]
            ),
            under_accounted=len(free) + (spent < float(sum(costs[name] for name in drawn))),
            overcharged=stated.total()
            + (spent > float(sum(costs[name] for name in set(entries) & costs.keys()))),
            unrecovered=len(costs.keys() - read.keys())
            + sum(not path.exists() for path in gathered)
            + failed,
            faults=Counter(
                (self.root / "faults" / name).read_text() for name in self.names("faults")
            ),
            unpublished=unpublished,
            drafts=len(list((self.root / "home" / "released").rglob("*.draft"))),
        )

    def _second_draws(self, gathered: list[bytes]) -> int:
        """Distinct bytes beyond the first that anybody was given, for every release and for what
        runs gathered.
        """
        seen = defaultdict(set)
        for name in self.names("seen"):
            seen[name.split(".")[0]].add(name)
        return sum(len(names) - 1 for names in seen.values()) + max(0, len(set(gathered)) - 1)

    def _run(self, run: str) -> Path:
        return self.root / "home" / "runs" / f"{run}-{self.schedule.method}"

    @staticmethod
    def _account(releases: Mapping[str, NamedRelease]) -> str:
        return next(iter(releases.values())).charge.account

    def _settings(self) -> Settings:
        settings = self.planned.settings
        return Settings(
            self.root / "home",
            settings.data,
            settings.contracts,
            settings.pipelines,
            self.root / "home" / "runs",
        )

    def _releases(self, ledger: Ledger) -> dict[str, NamedRelease]:
        folder = UnitFolder(
            self._run(RUNS[-1]), self.planned.unit, self.planned.declared, self._settings()
        )
        return releases_of(ledger, folder)

    @contextmanager
    def _ledger(self) -> Iterator[Ledger]:
        settings = self._settings()
        with Ledger.open(
            self.url, ledger_key(settings), settings.home / "ledger.anchor.json"
        ) as ledger:
            yield ledger
