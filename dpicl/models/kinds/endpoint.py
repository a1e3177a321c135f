"""Models of OpenAI-compatible servers. The HTTP client is imported when one is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpicl.ground.files import sha256_of
from dpicl.models.endpoint.protocol import check_address
from dpicl.models.kinds.base import ModelKind, Opened, imported_for, text_digest
from dpicl.models.requests import Scorer

if TYPE_CHECKING:
    from dpicl.models.embedding import Embedder
    from dpicl.models.spec import ModelSpec

_NO_MASS = ("one-label", "no-label", "parsed", "unparsed", "filtered", "refused", "rejected")
"""Outcomes whose scores are bounds or fixed."""


class Endpoint(ModelKind):
    """One model of a server, which others may run."""

    name = "endpoint"
    keys = frozenset({"id", "url", "api"})
    trust = "remote"
    is_served = True
    is_encoder = True

    def check(self, spec: ModelSpec) -> None:
        """See `protocol.check_address`."""
        check_address(str(spec.url), key=spec.key_env is not None, private=spec.trust == "local")

    def open(self, opened: Opened, models_folder: Path, mode: str = "") -> Scorer:
        """See `ModelKind.open`."""
        spec, _, wanted = opened
        with imported_for(f"model {spec.name!r}"):
            from dpicl.models.endpoint.scorer import EndpointScorer
        return EndpointScorer(spec, wanted=wanted, mode=mode)

    def fingerprint(self, spec: ModelSpec, corpus: Sequence[str]) -> str:
        """Of its address; what the server holds there is not known."""
        return text_digest(spec, *(["chat"] if spec.api == "chat" else []))

    def has_mass(self, outcomes: Mapping[str, float]) -> bool:
        """By how its answers came about."""
        return outcomes.get("scored", 0) > 0 and not any(map(outcomes.get, _NO_MASS))

    def open_embedder(self, spec: ModelSpec) -> Embedder:
        """See `ModelKind.open_embedder`."""
        with imported_for(f"embedder {spec.name!r}"):
            from dpicl.models.endpoint.scorer import EndpointEmbedder
        return EndpointEmbedder(spec)

    def embedder_fingerprint(self, spec: ModelSpec) -> str:
        """See `ModelKind.embedder_fingerprint`."""
        return sha256_of(f"embeddings {spec.url} {spec.id}")
