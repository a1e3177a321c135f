"""Speed of every step beside what a user would do, in one run: `make bench TOPIC=speed`. Goals are ratios where there is something beside it."""

from __future__ import annotations

from benchmarks.figures import Figures
from benchmarks.speed import command_speed, file_speed, group_speed, history, ledger_size, ledger_speed, local_speed, query_speed


def main() -> None:
    """From the file to the answer; the longest part last."""
    figures = Figures()
    for part in (command_speed, ledger_speed, ledger_size, file_speed, query_speed, local_speed, group_speed):
        print(f"measuring {part.__name__.rpartition('.')[2]} …", flush=True)
        part.measure(figures)
    history.add(figures)
    figures.finish()


if __name__ == "__main__":
    main()
