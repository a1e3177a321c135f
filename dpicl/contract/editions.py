"""The editions of a published set: the whole and its stated slices, each as a contract of its own.

Guarantee   none spent: the files, bounds and deltas are those that the contract states of each; no
            row is counted. Only public sets have editions, so that which of them is at hand tells
            nothing of anybody.
"""

from __future__ import annotations

from dpicl.contract.text import Classification, EditionOf, TextContract
from dpicl.contract.text_source import PUBLISHED, Slice, TextFile


def edition_names(contract: TextContract) -> tuple[str, ...]:
    """The whole, then the slices in the contract's order; none of texts that are not published."""
    return () if contract.source.published is None else (PUBLISHED, *contract.source.slices)


def edition(contract: TextContract, name: str) -> TextContract:
    """The contract of one edition: with its own files, bounds and deltas.
    Raises KeyError: there is no such slice; ValueError: a slice's bounds are of other labels.
    """
    chosen = (
        _whole(contract) if name == PUBLISHED else _slice(contract, contract.source.slices[name])
    )
    chosen._edition_of = EditionOf(contract, name)
    return chosen


def accepted(contract: TextContract) -> str:
    """What a contract accepts as its files, and how to get it; for errors."""
    slices = [
        f"{name} at {one.train.file} (sha256 {str(one.train.sha256)[:12]})"
        for name, one in contract.source.slices.items()
    ]
    below = f", or a slice below DPICL_DATA: {', '.join(slices)}" if slices else ""
    return f"the published set, which `dpicl data fetch {contract.name}` downloads{below}"


def _whole(contract: TextContract) -> TextContract:
    published = contract.source.published
    assert published is not None
    suffix = f".{published.form}" if published.form else ""
    files = {
        name: TextFile(
            file=f"published/{contract.name}/{published.version}/{one.file}{suffix}",
            sha256=one.sha256,
        )
        for name, one in (("train", published.train), ("test", published.test))
    }
    source = contract.source.model_copy(
        update={**files, "labels": published.labels, "published": None, "slices": {}}
    )
    task = contract.task.model_copy(update={"field": published.field or contract.task.field})
    return contract.model_copy(
        update={"source": source, "task": task, "text": published.text or contract.text}
    )


def _slice(contract: TextContract, one: Slice) -> TextContract:
    files: dict[str, object] = {
        "train": one.train,
        "test": one.test,
        "published": None,
        "slices": {},
    }
    changed: dict[str, object] = {
        "source": contract.source.model_copy(update=files),
        "task": _bounded(contract, one),
    }
    for key, delta in (("generation", one.deltas.generation), ("ensemble", one.deltas.ensemble)):
        sizes = getattr(contract, key)
        if sizes is not None and delta is not None:
            changed[key] = sizes.model_copy(update={"delta": delta})
    if one.deltas.budget is not None:
        budget = contract.privacy.budget.model_copy(update={"delta": one.deltas.budget})
        changed["privacy"] = contract.privacy.model_copy(update={"budget": budget})
    return contract.model_copy(update=changed)


def _bounded(contract: TextContract, one: Slice) -> object:
    """The task, with the slice's bounds on rows."""
    task, rows = contract.task, one.bounds
    if not isinstance(task, Classification):
        if not isinstance(rows, int):
            raise ValueError(  # noqa: TRY004
                "has bounds of labels; expected one number, since answers are no labels"
            )
        return task.model_copy(update={"min_rows": rows})
    by_label = dict.fromkeys(task.labels, rows) if isinstance(rows, int) else rows
    if by_label.keys() != task.labels.keys():
        raise ValueError(
            "has bounds of other labels; expected one for every label of the task, or one number "
            "for all"
        )
    labels = {
        label: words.model_copy(update={"min_rows": by_label[label]})
        for label, words in task.labels.items()
    }
    return task.model_copy(update={"labels": labels})
