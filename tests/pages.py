"""Every kind of page that a command writes, from small real runs of made-up data sets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.harness import complaint, install, install_texts, letters, new_place, shop, shop_rows
from tests.library.text_contracts import lines, records

_RUN = "--shots 1,2 --model fake --executor pool --workers 1 --run-id"
_WRITTEN = {
    "report on tables": (
        "runs/tables/report.html",
        (
            f"run demo --datasets kiosk --methods gdp_tabicl,mst_tabicl --epsilons 1,5,inf --seeds "
            f"0,1 {_RUN} tables"
        ),
    ),
    "report on texts": (
        "runs/texts/report.html",
        (
            f"run private --datasets postcards --methods few_shot_generation,dp_icl --epsilons 8 "
            f"--seeds 0 {_RUN} texts"
        ),
    ),
    "report of the demo": (
        "runs/shown/report.html",
        "run shipped-demo --model fake --queries 6 --executor pool --workers 1 --run-id shown",
    ),
    "comparison": (
        "compared.html",
        (
            f"run private --datasets kiosk --methods gdp_tabicl --epsilons 1,5,inf --seeds 0,1 "
            f"{_RUN} "
            f"one"
        ),
        (
            f"run private --datasets kiosk --methods gdp_tabicl --epsilons 1,5,inf --seeds 0,1 "
            f"--queries 9 {_RUN} other"
        ),
        "compare one other --out compared.html",
    ),
    "quality": ("quality.html", "synth shop --epsilon 2 --out rated.csv --quality quality.html"),
    "certificate": (
        "certificate.html",
        "synth shop --epsilon 2 --out rows.csv",
        "verify rows.csv --page certificate.html",
    ),
}
"""By kind the page, below the place or its state home, and the commands that write it."""
KINDS = tuple(_WRITTEN)


def written_pages(root: Path, kinds: Iterable[str] = KINDS) -> dict[str, Path]:
    """Reports on tables and on texts, a comparison of two, a page on how good a release is, and a
    verified certificate, below `root`.
    """
    place, pages = new_place(root), {}
    install(place, shop("kiosk"), shop_rows(60))
    install(place, shop("shop", private=True), shop_rows(200))
    install_texts(place, letters("postcards"), lines(records(40)), lines(records(4)))
    for kind in kinds:
        file, *commands = _WRITTEN[kind]
        for command in commands:
            done = place.dpicl(*command.split(), timeout=300)
            assert done.returncode == 0, complaint(done)
        pages[kind] = (place.home if file.startswith("runs") else root) / file
    return pages
