"""From a run folder to its report: one self-contained HTML page and the same in Markdown."""

from dpicl.report.render import build_report

__all__ = ["build_report"]
