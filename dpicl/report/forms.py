"""Of released texts the share that has the form their contract states: sentences for a report and a
terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpicl.report import words
from dpicl.report.cells import is_released, place_of
from dpicl.report.load import Forms
from dpicl.text.form import FORM_WORDS, Formed


def formed(units: Iterable[Forms]) -> Iterator[str]:
    """A sentence for each method on a data set: over seeds and shots, by system and epsilon; none
    on what is not released.
    """
    found: dict[tuple[str, str], dict[str, Formed]] = {}
    for unit in units:
        of_set = found.setdefault((unit.method, unit.dataset), {})
        for key, one in unit.cells.items():
            if is_released(key):
                system, epsilon, *_ = place_of(key)
                name = (
                    f"{'' if system == 'icl' else f'{words.system_name(system)}, '}ε = "
                    f"{words.epsilon(epsilon)}"
                )
                before = of_set.get(name, Formed(one.form, 0, 0))
                of_set[name] = Formed(
                    one.form, before.having + one.having, before.texts + one.texts
                )
    for (method, dataset), by_name in found.items():
        if by_name:
            form = FORM_WORDS[next(iter(by_name.values())).form]
            shares = "; ".join(
                f"{one.having} of {one.texts} at {name}" for name, one in by_name.items()
            )
            yield (
                f"{words.method_name(method)} on {dataset}: released texts that are {form}, as "
                f"all texts of the contract are: {shares}"
            )
