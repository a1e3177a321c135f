"""From a run folder to its report, one self-contained HTML page and the same in Markdown; and the
stages that close a run: all results in one place, and the report.
"""

from __future__ import annotations

from pathlib import Path

from dpicl.runs.execute import Step
from dpicl.runs.results import collect
from dpicl.runs.stage import stage

__all__ = ["REPORT", "build_report"]
REPORT = "report.html"
PICTURES = {"fitted": "fitted.svg", "gain": "gain.svg"}
"""Logistic regression on what was released, and what the private data add, as pictures of their
own.
"""


def build_report(run_folder: Path, by: str | None = None) -> tuple[Path, Path]:
    """Write report.html and report.md into the run folder and return their paths.

    Args:
        by: a column of public queries, by whose values answers are shown too.

    Raises:
        DpiclError: the folder lacks its manifest, or a file in it breaks its schema; or no data set
            has that column.
    """
    # a second to import, which a run without a report does not wait for
    from dpicl.report.answers import answered, by_group, shares
    from dpicl.report.blocks import standalone, to_html, to_markdown
    from dpicl.report.content import Who, report_of
    from dpicl.report.decision import gains_of
    from dpicl.report.figures import figures_of
    from dpicl.report.load import load_cells, load_run

    run = load_run(run_folder)
    gains = gains_of(run)
    figures = figures_of(run, gains)
    answers = answered(run_folder, run)
    who = Who(
        tuple(shares(answers)), tuple(by_group(answers, run_folder, by)) if by else (), by or ""
    )
    report = report_of(run, figures, gains, load_cells(run_folder, run), who)
    html = run_folder / REPORT
    markdown = run_folder / "report.md"
    html.write_text(to_html(report), "utf-8")
    markdown.write_text(to_markdown(report), "utf-8")
    for name, file in PICTURES.items():
        if picture := getattr(figures, name).svg:
            (run_folder / file).write_text(standalone(picture), "utf-8")
    return html, markdown


collect_run = stage("collect", "owner")(collect)
write_report = stage("report", "owner")(lambda run: str(build_report(Path(run))[0].name))


def report_steps(run: Path) -> list[Step]:
    """What closes a run."""
    return [Step(closing, (str(run),)) for closing in (collect_run, write_report)]
