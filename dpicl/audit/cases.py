"""All audits by name, in the order they are run."""

from __future__ import annotations

from dpicl.audit import counts, ensembles, evaluation, keywords, local, means, noise, persons, placement, releases, spanning, texts
from dpicl.audit.case import AuditCase
from dpicl.errors import ParameterError

_ALL = (
    *(local.randomised_response(categories) for categories in (2, 3, 7, 200)),
    local.unary_encoding(),
    local.client_collection(),
    local.question_collection(),
    counts.count_case(),
    counts.mode_case(),
    means.mean_case("centre"),
    means.mean_case("lower"),
    noise.gaussian_case(),
    noise.max_case(),
    noise.sparse_case(),
    releases.subsampled_case(),
    releases.one_column_case(),
    releases.two_columns_case(),
    releases.shared_count_case(),
    spanning.counts_case(),
    persons.person_case(),
    texts.fresh_case(),
    texts.fixed_case(),
    ensembles.votes_case(),
    ensembles.embedding_case(),
    keywords.set_case(),
    keywords.joint_case(),
    placement.keyed_case(),
    evaluation.evaluation_case(),
)
CASES: dict[str, AuditCase] = {case.name: case for case in _ALL}


def find_case(name: str) -> AuditCase:
    """The audit of that name.

    Raises:
        ParameterError: there is none; the message lists the names.
    """
    if name not in CASES:
        raise ParameterError("audit", repr(name[:60]), "one of " + ", ".join(CASES))
    return CASES[name]
