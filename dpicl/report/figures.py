"""Which figures a run gives."""

from __future__ import annotations

from dataclasses import dataclass

from dpicl.report import words
from dpicl.report.blocks import Figure
from dpicl.report.costs import costs
from dpicl.report.load import Run
from dpicl.report.plots import epsilon_figure, fitted_figure, rate_figure, time_figure
from dpicl.report.sentences import caption
from dpicl.report.tables import has_several_rates, of_texts


@dataclass(frozen=True)
class Figures:
    """What is drawn of a run, as `<svg>` elements in which only text of ours and escaped names stands; empty where there is nothing."""

    by_method: tuple[tuple[str, Figure], ...]
    """Methods with what is measured, `GDP-TabICL: accuracy`."""
    fitted: str
    time: str


def figures_of(run: Run) -> Figures:
    """One figure by method, whole texts apart; what was released as logistic regression judges it; time by stage."""
    drawn: list[tuple[str, str, Figure]] = []
    for (method, texts), part in run.results.groupby(["method", of_texts(run.results)], sort=False):
        by_rate, metric = has_several_rates(part), "rouge1" if texts else "accuracy"
        name, measure = words.method_name(str(method)), words.MEASURES[metric]
        svg = (rate_figure if by_rate else epsilon_figure)(part, metric)
        drawn.append((f"{name}: {measure}", caption(measure, by_rate=by_rate), Figure(name, svg)))
    captions = [told for _, told, _ in drawn]
    by_method = tuple(  # one caption below all figures that it belongs to
        (title, Figure(figure.label, figure.svg, "" if captions[i + 1 : i + 2] == [told] else told))
        for i, (title, told, figure) in enumerate(drawn)
    )
    bars = time_figure(costs(run.timings, None)) if len(run.timings) else ""
    return Figures(by_method, fitted_figure(run.results, run.manifest.majority), bars)
