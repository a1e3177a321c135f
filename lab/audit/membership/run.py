"""Every method on tables in its designs, and on texts, attacked at every epsilon, and mutants of it
that must be found out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, get_args

import numpy as np

from dpicl.accounting.guarantee import Guarantee
from dpicl.data.central.evolution import DistinctRows, Space
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.central.graphical_model import NoisyCounts
from dpicl.data.local.observed import Reported
from dpicl.data.local.questions import Tally
from dpicl.ground.randomness import Draws, Stream, stream
from dpicl.ground.types import Design, LocalReports, PrivateCodes, PrivateTable
from dpicl.methods import Options, grid, tabular, unit_of
from dpicl.methods.aim_tabicl import AimTabicl
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.methods.tab_pate import Labelled, TabPate
from dpicl.methods.tab_pe import TabPe, Votes
from dpicl.methods.tabular_method import TabularMethod
from lab.audit.membership.attacks import (
    FOR_RATIO,
    Attacked,
    Numbers,
    allowed,
    by_best_number,
    by_score,
    by_shadows,
    matrices,
    near,
    numbers,
    of_candidates,
    of_counts,
    of_reports,
    of_votes,
)
from lab.audit.membership.targets import Target
from lab.audit.membership.texts import (
    TEXT_EPSILONS,
    TEXT_WAYS,
    TextScene,
    TextTarget,
    TextWay,
    attack_texts_once,
)

EPSILONS = (0.5, 1.0, 2.0, 4.0)
BROKEN_AT = 1.0
"""Epsilon of the mutants."""
ROWS = 128
"""Derived rows that the attacker asks for, of one release of `SHARE`: fits take long."""
SHARE = 8
_TENTH = 10
Broken = Callable[[Any, "Scene", bool], Any]
"""A release, what it is of and whether the record is in: the release as a broken method would have
drawn it.
"""


@dataclass(frozen=True)
class Mutant:
    """A broken method: what it makes of epsilon, and of what it draws."""

    what_is_wrong: str
    epsilon_times: float = 1.0
    broken: Broken | None = None


LESS_NOISE = {"less-noise": Mutant("noise of a tenth of the scale", _TENTH)}


@dataclass(frozen=True)
class Way:
    """A method with options, on the first so many columns of the target or on all, and on an other
    record that differs in the label alone where answers tell most of that one.
    """

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: int | None = None
    by_label: bool = False
    mutants: Mapping[str, Mutant] = field(default_factory=lambda: LESS_NOISE)


def _exact_count(drawn: NoisyCounts, scene: Scene, which: bool) -> NoisyCounts:
    """Of the first column."""
    marginals = [*drawn.marginals]
    place = next(place for place, one in enumerate(marginals) if one.columns[0] == 0)
    exact = scene.exact[which].of_columns(marginals[place].columns)
    marginals[place] = replace(marginals[place], counts=exact)
    return replace(drawn, marginals=marginals)


def _exact_votes(drawn: Votes, scene: Scene, which: bool) -> Votes:
    """In the last iteration."""
    *before, last = drawn.histograms
    exact = scene.voters[which].votes(last.candidates, Space.of(scene.contract))
    return replace(drawn, histograms=[*before, replace(last, votes=exact)])


def _true_label(drawn: Reported, scene: Scene, which: bool) -> Reported:
    codes = drawn.stored.copy()
    codes[:, -1] = scene.codes(scene.tables[which]).codes[0, -1]
    return Reported(LocalReports(codes), drawn.laws)


_EXACT = {"exact-count": Mutant("one column is counted without noise", broken=_exact_count)}
_UNNOISED = {
    "exact-votes": Mutant(
        "the votes of the last iteration are released without noise", broken=_exact_votes
    )
}
_LABEL = {"true-label": Mutant("the label is sent as it is", broken=_true_label)}
_NO_NOISE = {"no-noise": Mutant("votes are released without noise", 1e6)}
_MODEL = "log-linear"
_DESIGNS = [design for design in get_args(Design) if design != "all-columns"]
WAYS: dict[str, Way] = {
    MstTabicl.title: Way(MstTabicl.name, mutants=LESS_NOISE | _EXACT),
    f"{MstTabicl.title}, one column": Way(MstTabicl.name, columns=1),
    AimTabicl.title: Way(AimTabicl.name, mutants=LESS_NOISE | _EXACT),
    TabPate.title: Way(TabPate.name, {"teachers": 256, "labelled": 256}, mutants=_NO_NOISE),
    TabPe.title: Way(TabPe.name, mutants=LESS_NOISE | _UNNOISED),
    GdpTabicl.title: Way(GdpTabicl.name),
    f"{GdpTabicl.title}, shared count": Way(GdpTabicl.name, {"allocation": "shared-count"}),
    f"{LdpTabicl.title}, all columns": Way(LdpTabicl.name, mutants=LESS_NOISE | _LABEL),
    **{
        f"{LdpTabicl.title}, {design}": Way(
            LdpTabicl.name, {"design": design, "estimator": _MODEL}, by_label=design == "agreement"
        )
        for design in _DESIGNS
    },
}
"""By name."""


class Scene:
    """One way at one epsilon on the two tables of a target."""

    def __init__(self, way: Way, target: Target, epsilon: float) -> None:
        self.method: TabularMethod[Any] = tabular(way.method)
        on_columns = target.of_columns(way.columns) if way.columns else target
        self.target = on_columns.of_label() if way.by_label else on_columns
        self.contract = self.target.contract
        shots = min((some for some in self.contract.shots if some > 1), default=1)
        options = Options.model_validate({way.method: dict(way.options)})
        self.unit = unit_of(
            way.method, self.contract.name, 0, (epsilon,), (shots,), (), False, options
        )
        ((self.cell, self.point),) = grid.points(self.method, self.unit).items()
        self.cost = self.method.cost(self.contract, self.point)
        self.tables = self.target.tables(local=self.method.trust == "local")

    def drawn(self, which: bool, draws: Draws) -> Any:
        """One release."""
        table, asked = self.tables[which], {self.cell: self.point}
        marks = grid.prepare(self.method, table, self.contract, asked, draws)
        return grid.draw(self.method, table, self.contract, asked, draws, marks)[self.cell]

    def codes(self, table: PrivateTable) -> PrivateCodes:
        """Rows as a client answers, or a release counts them."""
        encoding = self.method.form(self.contract, self.point).encoding
        return PrivateCodes(encoding.encode(self.method.bins(table, self.contract)))

    @cached_property
    def voters(self) -> dict[bool, DistinctRows]:
        """Who votes."""
        return {which: DistinctRows.of(self.codes(table)) for which, table in self.tables.items()}

    @property
    def exact(self) -> dict[bool, ExactCounts]:
        """Counts without noise."""
        sizes = self.method.form(self.contract, self.point).encoding.sizes
        return {
            which: ExactCounts.of(self.codes(table), sizes, triples=True)
            for which, table in self.tables.items()
        }


def attack_once(
    way: Way, target: Target, epsilon: float, mutant: str, runs: int, chance: Stream
) -> list[Attacked]:
    """All attacks on so many releases of either table."""
    broken = way.mutants[mutant] if mutant else Mutant("")
    scene = Scene(way, target, epsilon * broken.epsilon_times)
    seen: dict[bool, list[Any]] = {True: [], False: []}
    rows: dict[bool, list[tuple[float, Numbers]]] = {True: [], False: []}
    record = (
        scene.method.bins(scene.target.canary, scene.contract)[0]
        if scene.method.derive_stage
        else None
    )
    for which in (True, False):
        for number in range(runs):
            draws = Draws(chance.below(1 << 64), "membership", simulated=True)
            drawn = scene.drawn(which, draws)
            seen[which].append(
                drawn if broken.broken is None else broken.broken(drawn, scene, which)
            )
            if record is not None and number % SHARE == 0:
                codes = scene.method.rows(
                    seen[which][-1], scene.contract, scene.point, draws, ROWS
                ).codes
                rows[which].append(
                    near(
                        scene.method.form(scene.contract, scene.point).encoding.decode(codes),
                        record,
                    )
                )
    found: list[Attacked] = []
    ratio: Callable[[Any], float] | None = None
    if isinstance(seen[True][0], (Reported, Tally)):
        ratio = partial(
            of_reports,
            record=scene.codes(scene.target.canary),
            other=scene.codes(scene.target.other),
        )
    elif isinstance(seen[True][0], Labelled):
        ratio = partial(of_votes, record=scene.method.bins(scene.target.canary, scene.contract)[0])
    elif isinstance(seen[True][0], Votes):
        ratio = partial(of_candidates, voters=scene.voters, space=Space.of(scene.contract))
    elif isinstance(seen[True][0], NoisyCounts):
        ratio = partial(of_counts, exact=scene.exact)
    if ratio is not None:
        ratios = (np.array([ratio(drawn) for drawn in some]) for some in seen.values())
        found.append(by_score("likelihood ratio", *ratios, for_rule=FOR_RATIO))
    both = matrices([[numbers(drawn) for drawn in some] for some in seen.values()])
    found += [by_best_number("best number", *both), by_shadows("shadow model", *both)]
    if rows[True]:
        found.append(
            by_score(
                "nearest record",
                *(np.array([nearest for nearest, _ in some]) for some in rows.values()),
            )
        )
        found.append(
            by_shadows(
                "shadow model, rows",
                *matrices([[shares for _, shares in some] for some in rows.values()]),
            )
        )
    return found


@dataclass(frozen=True)
class Inference:
    """What all attacks on one way at one epsilon infer; of a mutant where one is named.

    Attributes:
        epsilon, delta: what is charged.
        tried: attacks in all, over which bounds hold at once.
    """

    way: str
    mutant: str
    what_is_wrong: str
    nominal: float
    epsilon: float
    delta: float
    attacks: tuple[Attacked, ...]
    tried: int

    @property
    def allowed(self) -> float:
        """The most that epsilon allows."""
        return allowed(self.epsilon, self.delta)

    @property
    def best(self) -> Attacked:
        """The attack with the largest lower bound."""
        return max(self.attacks, key=lambda one: one.at_least(self.tried))

    @property
    def at_least(self) -> float:
        """Its lower bound."""
        return self.best.at_least(self.tried)

    @property
    def passed(self) -> bool:
        """Whether a method stays within what is allowed, or a mutant does not."""
        if self.mutant:
            return self.at_least > self.allowed
        return all(attack.holds(self.epsilon, self.delta, self.tried) for attack in self.attacks)


def attack(
    target: Target,
    *,
    runs: int,
    seed: int,
    mutants: bool = True,
    texts: TextTarget | None = None,
    spread: Callable[..., Iterable[Any]] = map,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Inference]:
    """Attack all ways at all epsilons, and their mutants; the same seed gives the same.

    Args:
        runs: releases of each of the two tables.
        mutants: whether mutants are attacked too; in a large table a tenth of the noise may still
            hide a record.
        texts: attacked too, in half as many releases: they take long.
        spread: works like `map`, a process pool's for example.
        progress: called with how many parts are done, and of how many.
    """
    jobs = [(name, epsilon, "") for epsilon in EPSILONS for name in WAYS]
    if texts is not None:
        jobs += [(name, epsilon, "") for epsilon in TEXT_EPSILONS for name in TEXT_WAYS]
    attacked_ways: dict[str, Way | TextWay] = {**WAYS, **(TEXT_WAYS if texts else {})}
    jobs += [
        (name, BROKEN_AT, mutant)
        for name, way in attacked_ways.items()
        for mutant in way.mutants
        if mutants
    ]
    found: list[list[Attacked]] = []
    for done, attacked in enumerate(spread(partial(_attacked, target, texts, runs, seed), jobs), 1):
        found.append(attacked)
        progress(done, len(jobs))
    tried = sum(map(len, found))
    inferences = []
    for (name, epsilon, mutant), attacked in zip(jobs, found, strict=True):
        charged = _charged(target, texts, name, epsilon)
        wrong = attacked_ways[name].mutants[mutant].what_is_wrong if mutant else ""
        inferences.append(
            Inference(
                name, mutant, wrong, epsilon, charged.epsilon, charged.delta, tuple(attacked), tried
            )
        )
    return inferences


def _charged(target: Target, texts: TextTarget | None, name: str, epsilon: float) -> Guarantee:
    """What a release costs."""
    return (
        TextScene(TEXT_WAYS[name], texts, epsilon).charged
        if texts and name in TEXT_WAYS
        else Scene(WAYS[name], target, epsilon).cost.charged
    )


def _attacked(
    target: Target, texts: TextTarget | None, runs: int, seed: int, job: tuple[str, float, str]
) -> list[Attacked]:
    way, epsilon, mutant = job
    chance = stream(seed, "membership", way, f"{epsilon} {mutant}")
    if texts and way in TEXT_WAYS:
        return attack_texts_once(TEXT_WAYS[way], texts, epsilon, mutant, runs // 2, chance)
    return attack_once(WAYS[way], target, epsilon, mutant, runs, chance)
