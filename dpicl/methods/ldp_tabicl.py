"""LDP-TabICL: randomised at the client, reconstructed, sampled afresh for every query.

Trust       Local: only the client sees a true answer.
Unit        One client, who reports every attribute and the label, if any, once; where the contract
            protects persons, a client is a person and reports m rows of their own.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   epsilon-LDP per client and epsilon asked for; delta = 0. Reconstruction, sampling and
            prompting are post-processing.
Paper       Carey, Bhaila, Edemacu and Wu 2024 (arXiv 2403.05681), algorithm 1.

    1  D^ <- every client reports attribute i under epsilon_i = epsilon / d, or by another design
    2  D~ <- reconstruct(D^) through the inverse of the distortion matrices, or by another estimator
    3  z  <- k rows of D~, drawn afresh for each query
    4  E  <- serialise(z);  ask the model with (E, query)

Symbols     d reported answers, k shots, m the contract's most rows per person.
Not covered queries, which are sent as they are; collecting twice from one client.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from dpicl.accounting.guarantee import compose_sequential
from dpicl.contract.base import IN_FULL
from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Cell, Point, Unit
from dpicl.data.central.chosen_bins import NO_BINS, Bins
from dpicl.data.local.estimate import OF_ANY_DESIGN, check_fits, estimated_rows, usual_estimator
from dpicl.data.local.questions import suits_agreement, suits_label_alone
from dpicl.data.prompts import local_demonstrations, local_queries, longest_text
from dpicl.data.reading.encode import LocalEncoding, encode_queries
from dpicl.data.values import RowForm, local_form
from dpicl.ground.errors import DeclarationError, ParameterError, PrivacyError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import (
    Design,
    Estimator,
    PrivateCodes,
    PrivateTable,
    QueryTable,
    ReleasedRows,
    Table,
)
from dpicl.ground.validation import validate
from dpicl.methods.base import CellCost, check_width, epsilon_of
from dpicl.methods.collection import (
    Collected,
    Collection,
    collect,
    collect_codes,
    costs_of_row,
    encoding_of,
    expected_errors,
    expected_label_deviation,
    merged,
    questions_for,
    read_collected,
    report_epsilon,
)
from dpicl.methods.options import LdpOptions, LdpVariant
from dpicl.methods.row_method import SHOWN, Pool, RowMethod
from dpicl.methods.tabular_method import Alternatives, Arrays, Released

_GOOD: tuple[Design, ...] = ("pairs", "subset", "agreement")
_FEW_CELLS = 1 << 14
"""Of so many a model of all cells is fitted in a moment."""


class LdpTabicl(RowMethod[Collected]):
    """Steps 1 to 4: one release per collection, whatever the shots."""

    name = "ldp_tabicl"
    title = "LDP-TabICL"
    trust = "local"
    options = LdpOptions
    draw_version = 1
    post_version = 3
    artefact = "released_reports.npz"
    is_default = True
    takes_reports = True
    source = "reports"
    draw_stage = "randomise"
    derive_stage = "reconstruct"

    def systems(self, options: LdpOptions) -> tuple[str, ...]:
        """See `Method`."""
        raw = ("raw-rows",) if options.design == "all-columns" else ()
        return (*raw, *(f"icl-{name}" for name in (*options.shot_selection, *options.variants)))

    def refuse(self, contract: Contract, point: Point[LdpVariant]) -> None:
        """The number of clients is seen without noise: no row's content may decide whether it is
        one.
        """
        check_width(contract, self.name)
        if contract.is_benchmark:
            return
        for key, states in (
            ("split", contract.split is not None),
            ("missing", contract.drops_marked_rows),
        ):
            if states:
                raise PrivacyError(
                    f"{contract.name}: {self.name} shows how many rows report, and `{key}` lets a "
                    f"row's content decide that; expected no "
                    "such key (queries may come from a public file: `queries`)"
                )

    def default_options(
        self, contract: Contract, stated: Mapping[str, Any], epsilon: float
    ) -> dict[str, Any]:
        """A few columns and the label from each client, or whether they agree, from some the label
        alone where the others tell little of it, and a model of the population; prototypes of each
        label in turn demonstrate.
        """
        shown = {"shot_selection": SHOWN}
        if (
            stated.get("encoding", "k-ary") != "k-ary"
            or stated.get("estimator", "tree") not in OF_ANY_DESIGN
        ):
            return shown  # the paper's way, all columns at once
        encoding = encoding_of(contract, LdpVariant())
        own = report_epsilon(epsilon, contract)
        suits = stated.get("columns") is None and suits_agreement(encoding.sizes, epsilon)
        usual: dict[str, Any] = {
            "design": "agreement" if suits else "subset",
            "estimator": usual_estimator(encoding.sizes),
        }
        of_clients = {name: stated[name] for name in {*stated} & {*LdpVariant.model_fields}}
        try:
            options = validate(LdpVariant, {**usual, **of_clients}, self.name)
        except DeclarationError:  # which is said where all options are read
            return {**usual, **shown}
        is_asked = options.design != "all-columns" and suits_label_alone(
            questions_for(encoding, options, own), own
        )
        return {**usual, **({"label_alone": True} if is_asked else {}), **shown}

    def collection_options(
        self, contract: Contract, options: LdpOptions, words: Mapping[str, Any]
    ) -> LdpOptions:
        """See `TabularMethod`."""
        usual = {**words, "estimator": usual_estimator(encoding_of(contract, LdpVariant()).sizes)}
        collection = validate(LdpVariant, usual, "reports").model_dump(context=IN_FULL)

        def counted(chosen: LdpVariant) -> dict[str, Any]:
            stated = {name: getattr(chosen, name) for name in chosen.model_fields_set}
            for name in {*stated} & {*collection} - {"estimator"}:
                if stated[name] != collection[name]:
                    raise ParameterError(
                        f"options.{self.name}.{name}",
                        stated[name],
                        "no such option: how clients are asked stands beside the place of their "
                        "reports, `reports: {at: PLACE, design: …}`",
                    )
            return {**collection, **stated}

        variants = {name: counted(chosen) for name, chosen in options.variants.items()}
        return validate(
            LdpOptions,
            {**counted(options), "variants": variants},
            f"options.{self.name} with reports",
        )

    def collection(
        self, contract: Contract, point: Point[LdpVariant], sending_epsilon: float | None
    ) -> Collection:
        """See `TabularMethod`."""
        return Collection.of(
            contract,
            epsilon=point.epsilon,
            design=point.options.design,
            columns=point.options.columns,
            about=point.options.about,
            label_alone=point.options.label_alone,
            sending_epsilon=sending_epsilon,
            estimator=point.options.estimator,
        )

    def cost(self, contract: Contract, point: Point[LdpVariant]) -> CellCost:
        """What a client spends, who reports once per collection, whatever the shots: on every row
        all answers, or one question. Raises ParameterError: the estimator takes fewer cells than
        the contract's attributes make.
        """
        encoding = encoding_of(contract, point.options)
        check_fits(point.options.estimator, encoding.sizes, contract.name)
        reports = costs_of_row(encoding, point.options, report_epsilon(point.epsilon, contract))
        return CellCost(compose_sequential(reports * contract.rows_of_unit))

    def identity(self, contract: Contract, point: Point[LdpVariant]) -> dict[str, object]:
        """See `Method`; the sampling rate changes nothing of a collection, and is in its name."""
        rate = str(point.sampling_rate or contract.privacy.sampling_rate)
        chosen = point.options.model_dump(mode="json")
        unsaid = {"design", "columns"} if chosen["design"] == "all-columns" else set()
        unsaid |= set() if chosen["about"] else {"about"}
        named = {name: choice for name, choice in chosen.items() if name not in unsaid}
        of_rows: dict[str, object] = {"spent": "in-all"} if contract.rows_of_unit > 1 else {}
        return {"sampling_rate": rate, **named, **of_rows}

    def statement(self, contract: Contract, point: Point[LdpVariant], cost: CellCost) -> str:
        """See `Method`."""
        return (
            f"Every client's reports are {cost.nominal.epsilon:.4g}-LDP before they leave the "
            f"client; everything after is post-processing."
        )

    def alternatives(self, contract: Contract) -> Alternatives:
        """See `TabularMethod`: designs of which none is the best on all tables, with the best model
        that is fitted in a moment, the usual one with a tree, and the paper's.
        """
        few = prod(LocalEncoding.of(contract, "k-ary").sizes) <= _FEW_CELLS
        whole: Estimator = "log-linear" if few else "tree"
        ways = [(design, whole) for design in _GOOD]
        more = [("subset", "tree"), ("all-columns", "simplex")] if few else []
        return [
            ({"design": design, "estimator": estimator}, 4) for design, estimator in (*ways, *more)
        ]

    def column_errors(
        self, contract: Contract, point: Point[LdpVariant], rows: int
    ) -> Mapping[str, float]:
        """See `TabularMethod`: of every attribute's parts."""
        own = report_epsilon(point.epsilon, contract)
        return expected_errors(contract, point.options, own, rows)

    def label_deviation(
        self, contract: Contract, point: Point[LdpVariant], rows: int
    ) -> float | None:
        """See `TabularMethod`: of what clients report of it."""
        own = report_epsilon(point.epsilon, contract)
        return expected_label_deviation(contract, point.options, own, rows)

    def draw(
        self,
        train: PrivateTable,
        contract: Contract,
        point: Point[LdpVariant],
        draws: Draws,
        marks: np.ndarray | None = None,
    ) -> Collected:
        """Step 1."""
        own = report_epsilon(point.epsilon, contract)
        return collect(train, contract, point.options, own, draws)

    def count(
        self, batch: PrivateTable, contract: Contract, point: Point[LdpVariant], draws: Draws
    ) -> Arrays:
        """What the clients of a batch sent."""
        return {"reports": self.draw(batch, contract, point, draws).stored}

    def merge(
        self,
        batches: Sequence[Arrays],
        contract: Contract,
        point: Point[LdpVariant],
        draws: Draws,
        bins: Bins = NO_BINS,
    ) -> Collected:
        """What all clients sent."""
        own = report_epsilon(point.epsilon, contract)
        return merged(
            [read_collected(batch["reports"], contract, point.options, own) for batch in batches]
        )

    def encode(self, drawn: Collected) -> bytes:
        """See `TabularMethod`."""
        content = io.BytesIO()
        np.save(content, drawn.stored, allow_pickle=False)
        return content.getvalue()

    def decode(self, content: bytes, contract: Contract, point: Point[LdpVariant]) -> Collected:
        """See `TabularMethod`."""
        stored = np.load(io.BytesIO(content), allow_pickle=False)
        own = report_epsilon(point.epsilon, contract)
        return read_collected(stored, contract, point.options, own)

    def rows(
        self,
        drawn: Collected,
        contract: Contract,
        point: Point[LdpVariant],
        draws: Draws,
        count: int | None = None,
    ) -> ReleasedRows:
        """Step 2."""
        variant = point.options
        epsilon = point.epsilon
        chance = draws.public(
            "rows", f"{variant.design},{variant.columns},{variant.estimator},epsilon={epsilon}"
        )
        return estimated_rows(drawn, variant.estimator, chance, count)

    def form(self, contract: Contract, point: Point[LdpVariant]) -> RowForm:
        """See `TabularMethod`."""
        return local_form(contract, point.options.encoding)

    def bins(self, table: Table, contract: Contract) -> np.ndarray:
        """See `TabularMethod`."""
        return encode_queries(QueryTable(table.data), contract).codes

    def row_count(self, drawn: Collected) -> float:
        """See `TabularMethod`."""
        return drawn.clients

    def replicate(
        self,
        truth: PrivateCodes,
        row_count: int,
        drawn: Collected,
        contract: Contract,
        point: Point[LdpVariant],
        draws: Draws,
    ) -> Collected:
        """Step 1 of made-up clients."""
        clients = PrivateCodes(np.resize(truth.codes, (row_count, truth.codes.shape[1])))
        encoding = encoding_of(contract, point.options)
        own = report_epsilon(point.epsilon, contract)
        return collect_codes(clients, encoding, point.options, own, draws)

    def pools(
        self, released: Released[Collected], contract: Contract, unit: Unit
    ) -> dict[Cell, Pool]:
        """Reconstructed rows; at every finite epsilon also raw reports, which show what
        reconstruction is worth.
        """
        pools = super().pools(released, contract, unit)
        for cell in [cell for cell in pools if cell.system == "raw-rows"]:
            if len(sent := released.draws[Cell("reports", cell.epsilon)].stored):
                pools[cell] = replace(pools[cell], codes=sent)
        return {
            cell: pool
            for cell, pool in pools.items()
            if cell.system != "raw-rows" or not np.isinf(epsilon_of(cell))
        }

    def demonstrations(
        self, pool: Pool, places: np.ndarray, contract: Contract, chance: np.random.Generator
    ) -> list[str]:
        """Step 3 as text: a number reads as the part that clients report, as it does in a query."""
        return local_demonstrations(
            ReleasedRows(pool.codes[places]), pool.form.encoding.decode, contract
        )

    def longest_demonstration(self, contract: Contract, unit: Unit) -> str:
        """See `TabularMethod`."""
        encoding = encoding_of(contract, unit.chosen(LdpOptions))
        return longest_text(
            encoding.bin_counts,
            lambda bins: local_demonstrations(
                ReleasedRows(encoding.encode(bins)), encoding.decode, contract
            ),
        )

    def query_texts(self, queries: QueryTable, contract: Contract) -> list[str]:
        """See `RowMethod`."""
        return local_queries(encode_queries(queries, contract), contract)
