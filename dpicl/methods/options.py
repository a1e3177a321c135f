"""Options of the methods, as pipelines.yaml writes them, each with the paper's own value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import AfterValidator, Field, model_validator

from dpicl.contract.base import Frozen, Positive, Share
from dpicl.ground.types import Design, Estimator

Sampling = Literal["nested", "shared", "prototype", "diverse", "near"]
"""Rules that select shots among released rows, beside the paper's; `tabular.prompts.shots`
describes them.
"""
VariantName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,19}$")]
Variant = TypeVar("Variant", bound=Frozen)


class GdpOptions(Frozen):
    """Options of GDP-TabICL; the paper's are `all-columns`, `lower` and `nominal`."""

    allocation: Literal["paid-columns", "all-columns", "shared-count"] = "paid-columns"
    """How a group's epsilon is divided: among the columns that its definition leaves open, or among
    all of them.

    `shared-count`: one noisy count per group serves as the denominator of all its means, and the
    rest is for sums. A series (`releases.horizon`) has this one, with Gaussian noise.
    """
    sum_origin: Literal["lower", "centre"] = "centre"
    """The value that sums are measured from: the lower bound, or the middle of the bounds, which
    about halves the noise.
    """
    epsilon_is: Literal["amplified", "nominal"] = "amplified"
    """Whether epsilon is what is charged, after amplification by the subsample (`amplified`), or
    that of the averages on the subsample (`nominal`), which costs less.
    """


class FewShotVariant(Frozen):
    """One variant of DP few-shot generation; the paper's are `fresh` batches with `gaussian` or
    `exponential` noise.

    The contract's value applies where a size is left out.
    """

    unsaid = ("temperature", "top_k", "top_p")

    mechanism: Literal["gaussian", "exponential", "clipped-logits", "invisible-ink"] = "gaussian"
    """How the next token is selected: from sums of votes with one of the paper's two noises, or
    from sums of clipped logits; or `invisible-ink`: sampled from public logits plus the mean of
    clipped differences to them.
    """
    batches: Literal["fresh", "fixed"] = "fresh"
    """`fresh`: every token is voted on by newly sampled subsets. `fixed`: every row votes by
    itself, on all tokens of one text.
    """
    voters: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """`fresh`: number of subsets (M). `fixed`: rows per text at the contract's `min_rows`; all rows
    if left out. `invisible-ink` needs it: the sum of differences is divided by this number, whoever
    votes.
    """
    examples: Annotated[int, Field(ge=1, le=64)] | None = None
    """`fresh` only: rows per subset (N)."""
    candidates: Annotated[int, Field(ge=2, le=1_000_000)] | Literal["contract", "all"] = "contract"
    """Size of the candidate set (K): the tokens that are most likely without private rows.
    `invisible-ink` adds those that rows could make one of the K likeliest.
    """
    max_tokens: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Maximum number of tokens of a text (T_max); all of them are charged."""
    clip: Annotated[float, Field(gt=0, le=1000)] = 10.0
    """`clipped-logits` only: logits are clipped to this distance below the largest."""
    private_tokens: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, serialization_alias="elections"
    )
    """`fixed` only: maximum number of tokens per text that private rows select. A sparse-vector
    test decides for each token whether the model's own, public choice will do.
    """
    agreement: Share | None = None
    """With `private_tokens`: the share of votes at which the public choice is taken; 0.5 if left
    out, 0.95 for `clipped-logits`.
    """
    temperature: Annotated[float, Field(gt=0, le=100)] | None = None
    """`gaussian`: the token is sampled from the noisy votes at this temperature; the one with most
    votes if left out, as in the paper. Free. `invisible-ink`: temperature of the softmax, 1 if left
    out; at the same epsilon, differences are clipped in proportion to it.
    """
    top_k: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """`gaussian` with `temperature` only: sampled among so many tokens with most noisy votes."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """`gaussian` with `temperature` only: sampled among the fewest tokens that hold this share of
    the noisy votes (nucleus).
    """

    @model_validator(mode="after")
    def _fits_mechanism(self) -> FewShotVariant:
        if self.mechanism == "invisible-ink":
            if self.batches == "fresh" or self.voters is None:
                raise ValueError(
                    "invisible-ink without `batches: fixed` or without `voters`; expected both: a "
                    "public number of rows per text"
                )
            if self.private_tokens is not None:
                raise ValueError(
                    "private_tokens with invisible-ink; expected none: rows move every token"
                )
        elif self.temperature is not None and self.mechanism != "gaussian":
            raise ValueError(
                f"temperature with {self.mechanism}, of which the token alone is private; "
                f"expected mechanism gaussian"
            )
        if (self.top_k or self.top_p) and (
            self.mechanism != "gaussian" or self.temperature is None
        ):
            raise ValueError(
                "top_k or top_p without gaussian noise or without temperature; expected "
                "`mechanism: gaussian` and a temperature"
            )
        return self

    @model_validator(mode="after")
    def _fits_batches(self) -> FewShotVariant:
        if self.batches == "fixed" and self.examples is not None:
            raise ValueError(
                "fixed batches with examples; expected none: every row votes on its own"
            )
        if self.batches == "fresh" and self.mechanism == "clipped-logits":
            raise ValueError(
                "clipped-logits with fresh batches; expected `batches: fixed`, where every row "
                "votes on its own"
            )
        if self.private_tokens is not None and (
            self.batches == "fresh" or self.mechanism == "gaussian"
        ):
            raise ValueError(
                "private_tokens with fresh batches or gaussian noise; expected `batches: fixed` "
                "and another mechanism"
            )
        return self


def variant_of(
    options: Variant, variants: Mapping[str, Variant], kind: type[Variant], system: str
) -> Variant:
    """The variant of a system: `icl`, or `icl-NAME` of `variants`."""
    chosen = variants[system.removeprefix("icl-")] if system.startswith("icl-") else options
    return kind.model_validate({name: getattr(chosen, name) for name in kind.model_fields})


class FewShotOptions(FewShotVariant):
    """Options of DP few-shot generation: those of the first variant, and further variants."""

    variants: dict[VariantName, FewShotVariant] = {}
    """Further variants by name; each is released and charged separately and has its own row in the
    report.
    """

    def variant(self, system: str) -> FewShotVariant:
        """The variant of a system: `icl`, or `icl-NAME` of `variants`."""
        return variant_of(self, self.variants, FewShotVariant, system)


class LdpVariant(Frozen):
    """One variant of LDP-TabICL; the paper's is `one-hot`, `all-columns` and `clip`."""

    unsaid = ("label_alone",)

    encoding: Literal["k-ary", "one-hot"] = "k-ary"
    """How a client reports a category: by k-ary randomised response, or as one randomised bit per
    category.
    """
    design: Design = "all-columns"
    """Which columns a client reports; `tabular.local.questions` defines the designs."""
    columns: Annotated[int, Field(ge=1, le=64)] | None = None
    """`subset` only: number of columns per report beside the label; grows with epsilon if left
    out.
    """
    about: Annotated[tuple[str, ...], AfterValidator(lambda names: tuple(sorted({*names})))] = ()
    """Attributes that clients are asked for, beside the label, where it is public which matter; all
    if empty. Of the others nothing is
    learned: rows have all their categories equally often.
    """
    label_alone: bool = False
    """Whether about one client in eight is asked for the label alone, which tells more surely which
    one is the most frequent; in every design but `all-columns`.
    """
    estimator: Estimator = "simplex"
    """How the distribution is estimated from reports: by inversion, projected onto the simplex
    (`simplex`) or clipped at zero (`clip`); not at all (`none`: the reports are the rows); or by a
    model of the population (`em` over all cells, `log-linear`, `tree` of pairs).
    """

    @model_validator(mode="after")
    def _fits_design(self) -> LdpVariant:
        if self.design != "all-columns" and self.estimator in ("simplex", "clip", "none"):
            raise ValueError(
                f"design {self.design} with estimator {self.estimator}; expected log-linear, em "
                f"or tree"
            )
        if self.design != "all-columns" and self.encoding == "one-hot":
            raise ValueError(
                f"design {self.design} with encoding one-hot; expected k-ary: one answer names "
                f"one category"
            )
        if self.columns is not None and self.design != "subset":
            raise ValueError(f"columns with design {self.design}; expected `design: subset`")
        if (self.about or self.label_alone) and self.design == "all-columns":
            raise ValueError(
                f"{'about' if self.about else 'label_alone'} with design all-columns; expected "
                "another design: in this one a client reports every column"
            )
        return self


class LdpOptions(LdpVariant):
    """Options of LDP-TabICL: those of the first variant, and further variants."""

    shot_selection: tuple[Sampling, ...] = ()
    """Further rules that select the shots; free of charge, each with its own row in the report."""
    variants: dict[VariantName, LdpVariant] = {}
    """Further variants by name, each with its own row in the report. One that differs in more than
    the estimator is collected anew.
    """

    @model_validator(mode="after")
    def _names_differ(self) -> LdpOptions:
        both = {"icl", "raw-rows", "calibrated", "naive", *get_args(Sampling)} & set(self.variants)
        if both:
            raise ValueError(
                f"variants names {min(both)}, which means something else; expected another name"
            )
        return self

    def variant(self, system: str) -> LdpVariant:
        """The variant of a system: `icl`, or `icl-NAME` of `variants`."""
        name = system.removeprefix("icl-")
        return variant_of(
            self, self.variants, LdpVariant, system if name in self.variants else "icl"
        )


class CentralOptions(Frozen):
    """What methods have in common whose rows a curator releases."""

    shot_selection: tuple[Sampling, ...] = ()
    """Further rules that select the shots, beside uniform sampling; free of charge, each with its
    own row in the report.
    """


class MstOptions(CentralOptions):
    """Options of MST-TabICL."""

    unsaid = ("noise", "delta", "structure")

    noise: Literal["laplace", "gaussian"] = "laplace"
    """Of counts and choices. `laplace`: epsilon is per row, with delta = 0. `gaussian`: less noise,
    at a `delta`; epsilon and delta are for what the contract protects, a row or a person, under its
    neighbours.
    """
    delta: Share | None = None
    """`gaussian` only: delta of a whole release, far below 1 / (number of rows or persons); that of
    the contract's budget if left out.
    """
    structure: Positive | None = None
    """Of a series (`releases.horizon`) only: the period, counted from 1, in which pairs of columns
    are chosen from all rows until then, once for the horizon; after a twelfth of it if left out.
    """

    @model_validator(mode="after")
    def _delta_fits_noise(self) -> MstOptions:
        if self.noise == "laplace" and self.delta is not None:
            raise ValueError(
                "delta with laplace noise, which has none to spend; expected `noise: gaussian`"
            )
        return self


class AimOptions(MstOptions):
    """Options of AIM-TabICL."""


class PateOptions(CentralOptions):
    """Options of TabPATE."""

    queries: Literal["public", "released"] = "public"
    """What is labelled: rows of which every bin is as likely as any other, at no cost; or rows
    drawn from noisy counts of every column, which take an eighth of epsilon, as those of the labels
    do.
    """
    teachers: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """Into how many parts the rows are divided; if left out, by the contract's `population`."""
    labelled: Annotated[int, Field(ge=1, le=4096)] | None = None
    """How many queries are labelled, which share epsilon; if left out, by epsilon and the number of
    teachers.
    """


class TabPeOptions(CentralOptions):
    """Options of Tab-PE."""


PARTICIPATIONS = 8
"""Of a text, where `similarity` is given and nothing else is said."""


class EnsembleVariant(Frozen):
    """One variant of DP-ICL; the paper's are `votes` with gaussian noise, `embedding`,
    `keywords-ptr` and `keywords-joint`.

    The contract's value applies where a size is left out.
    """

    unsaid = ("similarity", "participations", "calibrate")

    aggregation: (
        Literal["votes", "soft-votes", "embedding", "keywords-ptr", "keywords-joint"] | None
    ) = None
    """How the ensemble's answers are combined; if left out, `votes` where the contract lists
    labels, else `embedding`.

    `soft-votes`: every private row has a prompt of its own, and clipped log-probabilities are
    summed.
    """
    noise: Literal["gaussian", "exponential"] = "gaussian"
    """`votes` only; every other aggregation has one kind of noise."""
    subsets: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """Number of disjoint prompts per query (M), each with `shots` rows on average."""
    clip: Annotated[float, Field(gt=0, le=1000)] = 5.0
    """`soft-votes` only: log-probabilities are clipped to this distance below the largest, in
    nats.
    """
    similarity: Share | None = None
    """Texts are retrieved, not sampled: those take part in a query whose cosine similarity to it is
    at least this, by the embedder, which is public. To be chosen without looking at the private
    texts.
    """
    participations: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """With `similarity`: number of queries that one text, or person, takes part in at most; 8 if
    left out. Epsilon pays for as many, whatever the number of queries.
    """
    calibrate: bool | None = None
    """Labels only: whether each prompt's answer is calibrated by what the model says to texts
    without content behind this prompt's own rows (Zhao et al. 2021). As the contract's `calibrate`
    says if left out. Part of a release's name where it is done.
    """

    @model_validator(mode="after")
    def _fits_retrieval(self) -> EnsembleVariant:
        if self.participations is not None and self.similarity is None:
            raise ValueError(
                "participations without similarity; expected both: texts that are sampled pay for "
                "every query"
            )
        return self


class EnsembleOptions(EnsembleVariant):
    """Options of DP-ICL: those of the first variant, and further variants."""

    variants: dict[VariantName, EnsembleVariant] = {}
    """Further variants by name; each is released and charged separately and has its own row in the
    report.
    """

    def variant(self, system: str) -> EnsembleVariant:
        """The variant of a system: `icl`, or `icl-NAME` of `variants`."""
        return variant_of(self, self.variants, EnsembleVariant, system)
