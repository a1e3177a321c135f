"""A run's figures on the orchestrator's pages, inside one artifact."""

from __future__ import annotations

import base64
from pathlib import Path

from prefect.artifacts import create_markdown_artifact

from flows.report import words
from flows.report.load import load_run
from flows.report.render import figures_of
from flows.report.svg import standalone
from tasks.publish import artifact_key


def show_figures(run: str) -> str:
    """Publish the report's figures as pictures in Markdown; they show results only."""
    drawn = figures_of(load_run(Path(run)))
    named = [(f"{words.method_name(method)}: {measure}", figure) for method, _, measure, figure in drawn["figures"]]
    named += [
        (title, drawn[name]) for name, title in (("fitted_figure", "Judged by logistic regression"), ("time_figure", "Time by stage"))
    ]
    parts = [f"### {title}\n\n![{title}](data:image/svg+xml;base64,{_encoded(figure)})" for title, figure in named if figure]
    if parts:
        key = artifact_key("figures", Path(run).name)
        create_markdown_artifact(key=key, markdown="\n\n".join(parts), description=f"Figures of {Path(run).name}")
    return f"{len(parts)} figures"


def _encoded(figure: str) -> str:
    return base64.b64encode(standalone(figure).encode()).decode()
