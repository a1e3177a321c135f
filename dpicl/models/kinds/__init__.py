"""The kinds of models: what an entry of `models` may state as its `kind`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dpicl.models.kinds.base import ModelKind
from dpicl.models.kinds.endpoint import Endpoint
from dpicl.models.kinds.fake import Fake
from dpicl.models.kinds.local import Bundled, Tabular, Tiny, Transformers

KINDS: dict[str, ModelKind] = {
    kind.name: kind for kind in (Bundled(), Tiny(), Transformers(), Endpoint(), Tabular(), Fake())
}
"""{name in an entry: its kind}."""
if TYPE_CHECKING:
    KindName = str
else:
    KindName = Literal[tuple(KINDS)]


def kind_named(name: str) -> ModelKind:
    """The kind by its name in a description; of one that is none of `KINDS` nothing is assumed."""
    return KINDS.get(name, ModelKind())


def kinds_with(key: str) -> str:
    """The kinds whose entries have a key, in words."""
    *others, last = (kind.name for kind in KINDS.values() if key in kind.keys)
    return f"{', '.join(others)} and {last}" if others else last
