"""Certificates: a certified file verifies, and with any byte of it or of its certificate changed,
or by another key, it is refused.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import dpicl
from dpicl.ground.errors import CertificateError
from dpicl.home.settings import Settings
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.release.certificate_files import certificate_of, public_key, verify_file, write_certified
from dpicl.release.certificate_issue import certify
from dpicl.release.one_release import planned_table
from dpicl.release.request import ReleaseRequest
from lab.benchmarks.figures import Figures
from tests.harness import install, new_place, shop, shop_rows


def measure(figures: Figures) -> None:
    """Every byte, by two changes each; the first of a release of sixty private rows."""
    with tempfile.TemporaryDirectory() as folder:
        place = new_place(Path(folder) / "place")
        name = install(place, shop("certified", private=True), shop_rows(60))
        with place.entered():
            settings = Settings.from_environment()
            session = dpicl.Session(settings.home, data=settings.data, contracts=settings.contracts)
            session.protect(name, method=MstTabicl.name, epsilon=1, shots=2)
            planned = planned_table(
                ReleaseRequest(dataset=name, epsilon=1, method=MstTabicl.name, shots=2), settings
            )
            path, key = place.root / "rows.csv", public_key(settings)
            write_certified(
                path,
                lambda file: file.write(b"a,b\n1,2\n"),
                certify(planned.contract, planned.method, planned.point, settings),
                settings,
            )
            other = public_key(replace(settings, home=place.root / "other"))
            changes = list(_refused(path, key))
            figures.exactly("certificate-verified", _verifies(path, key), True)
            figures.exactly("certificate-bytes-changed-refused", sum(changes), len(changes))
            figures.exactly("certificate-other-key-refused", not _verifies(path, other), True)


def _refused(path: Path, key: str) -> Iterator[bool]:
    """Whether each change of one byte is refused; the files are as before in the end."""
    for place in (path, certificate_of(path)):
        content = place.read_bytes()
        for position in range(len(content)):
            for flip in (0x01, 0x20):
                place.write_bytes(
                    content[:position] + bytes([content[position] ^ flip]) + content[position + 1 :]
                )
                yield not _verifies(path, key)
        place.write_bytes(content)


def _verifies(path: Path, key: str) -> bool:
    with suppress(CertificateError):
        return verify_file(path, key=key).product.file is not None
    return False


if __name__ == "__main__":
    FIGURES = Figures()
    measure(FIGURES)
    FIGURES.finish()
