"""Choices of the methods, as pipelines.yaml writes them: frozen types, each choice with the paper's beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import Field, model_validator

from dpicl.contract.base import Frozen
from dpicl.tabular.local.estimate import Estimator
from dpicl.tabular.local.questions import Design

Sampling = Literal["nested", "shared", "prototype", "diverse", "near"]
"""Ways to choose shots among released rows beside the paper's; `tabular.shots` says how."""
VariantName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,19}$")]
Variant = TypeVar("Variant", bound=Frozen)


class GdpOptions(Frozen):
    """Choices of GDP-TabICL; the paper's are `all-columns`, `lower` and `before`."""

    allocation: Literal["paid-columns", "all-columns", "shared-count"] = "paid-columns"
    """`shared-count`: the averages of a group divide by one noisy count, and the rest of the budget is for sums."""
    sum_origin: Literal["lower", "centre"] = "centre"
    """Which value a sum counts as nothing: the lower bound, or the middle of the bounds, about which half the noise is enough."""
    spent: Literal["before", "in-all"] = "before"
    """What epsilon is: of the averages before the subsample amplifies them, or what the account is charged in all."""


class FewShotVariant(Frozen):
    """One way of DP few-shot generation; the paper's are `fresh` batches and the first two mechanisms.

    What is None is the contract's.
    """

    mechanism: Literal["gaussian", "exponential", "clipped-logits"] = "gaussian"
    """The noise of an election: on sums of votes (the paper's two, by their noise), or on sums of clipped logits."""
    batches: Literal["fresh", "fixed"] = "fresh"
    """`fresh`: new subsets vote on every token. `fixed`: every row votes on all tokens of one text, on its own."""
    voters: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """`fresh`: subsets (M). `fixed`: how many rows vote on a text at the contract's lower bounds; None takes all."""
    examples: Annotated[int, Field(ge=1, le=64)] | None = None
    """Rows in one subset (N), of `fresh` batches."""
    candidates: Annotated[int, Field(ge=2, le=1_000_000)] | Literal["contract", "all"] = "contract"
    """The likeliest tokens without private rows, of which one is elected (K)."""
    max_tokens: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Tokens of a text (T_max), all of which are charged."""
    clip: Annotated[float, Field(gt=0, le=1000)] = 10.0
    """Of `clipped-logits`: how far below the largest a logit counts."""
    elections: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Of `fixed` batches: rows elect at most so many tokens of a text, and are asked otherwise whether the model's own will do."""
    agreement: Annotated[float, Field(gt=0, lt=1)] | None = None
    """With `elections`: the share of the votes of `voters` rows that the model's own next token must have to do.

    None is 0.5; of clipped logits, which vote in part for everything, 0.95.
    """

    @model_validator(mode="after")
    def _fits_batches(self) -> FewShotVariant:
        if self.batches == "fixed" and self.examples is not None:
            raise ValueError("fixed batches with examples; expected none: every row votes on its own")
        if self.batches == "fresh" and self.mechanism == "clipped-logits":
            raise ValueError("clipped-logits with fresh batches; expected `batches: fixed`, where every row votes on its own")
        if self.elections is not None and (self.batches == "fresh" or self.mechanism == "gaussian"):
            raise ValueError("elections with fresh batches or gaussian noise; expected `batches: fixed` and another mechanism")
        return self


def variant_of(options: Variant, also: Mapping[str, Variant], kind: type[Variant], system: str) -> Variant:
    """The way that a system stands for: `icl`, or `icl-NAME` of `also`."""
    chosen = also[system.removeprefix("icl-")] if system.startswith("icl-") else options
    return kind.model_validate({name: getattr(chosen, name) for name in kind.model_fields})


class FewShotOptions(FewShotVariant):
    """Choices of DP few-shot generation: one way, and others beside it."""

    also: dict[VariantName, FewShotVariant] = {}
    """More ways by name, each a row of its own in the report and a release of its own."""

    def variant(self, system: str) -> FewShotVariant:
        """The way that a system stands for: `icl`, or `icl-NAME` of `also`."""
        return variant_of(self, self.also, FewShotVariant, system)


class LdpVariant(Frozen):
    """One way of LDP-TabICL; the paper's are `one-hot`, `all-columns` and `clip`."""

    encoding: Literal["k-ary", "one-hot"] = "k-ary"
    """How a client answers: with one category by randomised response, or with a randomised bit for each."""
    design: Design = "all-columns"
    """What a client is asked: `tabular.questions` says which columns, and under which law."""
    columns: Annotated[int, Field(ge=1, le=64)] | None = None
    """Of `subset`: how many columns are reported together, beside the label; None grows with epsilon."""
    estimator: Estimator = "simplex"
    """How shares are estimated from reports: the inverse, put on the nearest shares (`simplex`), clipped at nought (`clip`) or not at
    all (`none`: the reports are the rows); or a model of the population, `em` of all cells, `log-linear`, or a `tree` of pairs.
    """

    @model_validator(mode="after")
    def _fits_design(self) -> LdpVariant:
        if self.design != "all-columns" and self.estimator in ("simplex", "clip", "none"):
            raise ValueError(f"design {self.design} with estimator {self.estimator}; expected log-linear, em or tree")
        if self.design != "all-columns" and self.encoding == "one-hot":
            raise ValueError(f"design {self.design} with encoding one-hot; expected k-ary: one answer names one category")
        if self.columns is not None and self.design != "subset":
            raise ValueError(f"columns with design {self.design}; expected `design: subset`")
        return self


class LdpOptions(LdpVariant):
    """Choices of LDP-TabICL: one way, and others beside it."""

    also_sampled: tuple[Sampling, ...] = ()
    """Ways to choose shots beside the paper's; rows of their own in the report."""
    also: dict[VariantName, LdpVariant] = {}
    """More ways by name, each a row of its own in the report; another collection where more than the estimator differs."""

    @model_validator(mode="after")
    def _names_differ(self) -> LdpOptions:
        both = {"icl", "raw-rows", "calibrated", "naive", *get_args(Sampling)} & set(self.also)
        if both:
            raise ValueError(f"also names {min(both)}, which means something else; expected another name")
        return self

    def variant(self, system: str) -> LdpVariant:
        """The way that a system stands for: `icl`, or `icl-NAME` of `also`."""
        name = system.removeprefix("icl-")
        return variant_of(self, self.also, LdpVariant, system if name in self.also else "icl")


class MstOptions(Frozen):
    """Choices of MST-TabICL."""

    also_sampled: tuple[Sampling, ...] = ()
    """Ways to choose shots beside random ones; rows of their own in the report."""


class EnsembleVariant(Frozen):
    """One way of DP-ICL; the paper's are `votes` with gaussian noise, `embedding` and the two of `keywords`.

    What is None is the contract's.
    """

    aggregation: Literal["votes", "soft-votes", "embedding", "keywords-ptr", "keywords-joint"] | None = None
    """How answers become one: None is `votes` where the contract lists labels, else `embedding`.

    `soft-votes`: every row is asked with for itself, and its clipped log-probabilities add up.
    """
    noise: Literal["gaussian", "exponential"] = "gaussian"
    """Of `votes`; all others have one noise only."""
    subsets: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """Disjoint prompts for each query (M), of `shots` rows each on average."""
    clip: Annotated[float, Field(gt=0, le=1000)] = 5.0
    """Of `soft-votes`: how far below the largest a log-probability counts, in nats."""


class EnsembleOptions(EnsembleVariant):
    """Choices of DP-ICL: one way, and others beside it."""

    also: dict[VariantName, EnsembleVariant] = {}
    """More ways by name, each a row of its own in the report and a release of its own."""

    def variant(self, system: str) -> EnsembleVariant:
        """The way that a system stands for: `icl`, or `icl-NAME` of `also`."""
        return variant_of(self, self.also, EnsembleVariant, system)
