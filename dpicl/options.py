"""Choices of the methods, as pipelines.yaml writes them: frozen types, each choice with the paper's beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import Field, model_validator

from dpicl.contract.base import Frozen


class LdpOptions(Frozen):
    """Choices of LDP-TabICL; the paper's are `one-hot` and `clip`."""

    encoding: Literal["k-ary", "one-hot"] = "k-ary"
    estimator: Literal["simplex", "clip", "none"] = "simplex"
    also_sampled: tuple[Literal["nested", "shared"], ...] = ()
    """Ways to draw shots beside the paper's; columns of their own in the report."""


class GdpOptions(Frozen):
    """Choices of GDP-TabICL; the paper's are `all-columns` and `lower`."""

    allocation: Literal["paid-columns", "all-columns"] = "paid-columns"
    sum_origin: Literal["lower", "centre"] = "centre"


class FewShotVariant(Frozen):
    """One way of DP few-shot generation; the paper's are `fresh` batches and the first two mechanisms.

    What is None is the contract's.
    """

    mechanism: Literal["gaussian", "exponential", "clipped-logits"] = "gaussian"
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


VariantName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,19}$")]
Variant = TypeVar("Variant", bound=Frozen)


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


class Options(Frozen):
    """Choices by method, and for all of them."""

    ldp_tabicl: LdpOptions = LdpOptions()
    gdp_tabicl: GdpOptions = GdpOptions()
    few_shot_generation: FewShotOptions = FewShotOptions()
    dp_icl: EnsembleOptions = EnsembleOptions()
    calibrate: bool = False
    """Also answer with contextual calibration: what the model says without content is taken off."""
