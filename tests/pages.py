"""Every kind of page that a command writes, from small real runs of made-up data sets."""

from __future__ import annotations

from pathlib import Path

from tests.harness import complaint, install, install_texts, letters, new_place, shop, shop_rows
from tests.library.text_contracts import lines, records

RUN = "--shots 1,2 --model fake --executor pool --workers 1 --run-id"
KINDS = ("report on tables", "report on texts", "quality", "certificate")


def written_pages(root: Path) -> dict[str, Path]:
    """Reports on tables and on texts, a page on how good a release is, and a verified certificate, below `root`."""
    place = new_place(root)
    install(place, shop("kiosk"), shop_rows(60))
    install(place, shop("shop", private=True), shop_rows(200))
    install_texts(place, letters("postcards"), lines(records(40)), lines(records(4)))
    for command in (
        f"run demo --datasets kiosk --methods gdp_tabicl,mst_tabicl --epsilons 1,5,inf --seeds 0,1 {RUN} tables",
        f"run private --datasets postcards --methods few_shot_generation,dp_icl --epsilons 8 --seeds 0 {RUN} texts",
        "synth shop --epsilon 2 --out rows.csv --quality quality.html",
        "verify rows.csv --page certificate.html",
    ):
        done = place.dpicl(*command.split(), timeout=300)
        assert done.returncode == 0, complaint(done)
    files = (place.run("tables") / "report.html", place.run("texts") / "report.html", root / "quality.html", root / "certificate.html")
    return dict(zip(KINDS, files, strict=True))
