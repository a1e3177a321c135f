"""The mistakes that tests must notice: each of them can be made, in one place."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.mutants.__main__ import AREAS, HEIRS, LIST, standing
from tools.mutants.checkout import ROOT
from tools.mutants.places import Mutant, Product, listed, with_heir

MUTANTS = listed(LIST)


@pytest.fixture(scope="module")
def product() -> Product:
    return Product(ROOT)


def test_each_mutant_of_the_list_changes_one_file(product: Product) -> None:
    there, gone = standing(product, MUTANTS)
    assert [mutant.id for mutant in gone] == [], f"expected heirs of these in {HEIRS}"
    for mutant in there:
        made = product.mutated(mutant)
        assert made is not None
        assert ast.dump(ast.parse(made[1])) != ast.dump(product.tree(made[0])), mutant.id


def test_the_list_names_each_mutant_once_and_says_what_breaks() -> None:
    assert len({mutant.id for mutant in MUTANTS}) == len(MUTANTS) >= 150
    for mutant in MUTANTS:
        assert mutant.area in AREAS, mutant.id
        assert mutant.says.endswith(".") and len(mutant.says.split()) > 3, mutant.id


@pytest.fixture
def made_of(tmp_path: Path) -> Callable[[str], Product]:
    def make(text: str) -> Product:
        (tmp_path / "dpicl").mkdir(exist_ok=True)
        (tmp_path / "dpicl" / "one.py").write_text(text, "utf-8")
        return Product(tmp_path)

    return make


HALF = Mutant(
    "half", "mechanisms", "Noise is half of what it should be.", "1 / epsilon", "2", "noise"
)
CLASS = "class Other:\n    def noise(self, epsilon): return 1 / epsilon\n"


def test_a_piece_is_found_wherever_and_however_it_is_written(
    made_of: Callable[[str], Product],
) -> None:
    text = "def noise(epsilon):\n    return draw(  # ä\n        1\n        / epsilon)\n"
    made = made_of(text).mutated(HALF)
    assert made == ("dpicl/one.py", text.replace("1\n        / epsilon", "2").encode())


@pytest.mark.parametrize(
    "text",
    [
        "def other(epsilon): return 1 / epsilon\n",
        "def noise(epsilon): return 1 / epsilon, 1 / epsilon\n",
    ],
)
def test_a_piece_that_stands_nowhere_or_twice_is_gone(
    made_of: Callable[[str], Product], text: str
) -> None:
    product = made_of(text)
    assert product.mutated(HALF) is None
    assert standing(product, [HALF]) == ([], [HALF])


def test_a_class_tells_two_functions_of_one_name_apart(made_of: Callable[[str], Product]) -> None:
    product = made_of("class Noise:\n    def noise(self, epsilon): return 1 / epsilon\n" + CLASS)
    assert product.mutated(HALF) is None
    heir = with_heir(HALF, {"half": {"old": HALF.old, "new": HALF.new, "within": "Noise.noise"}})
    made = product.mutated(heir)
    assert made is not None and made[1].decode().endswith(CLASS)


def test_statements_and_pieces_of_texts_are_exchanged_too(
    made_of: Callable[[str], Product],
) -> None:
    product = made_of('def noise(e):\n    if e:\n        check(e)\n    return f"{e + 1} of {e}"\n')
    forgotten = product.mutated(Mutant("a", "ledger", "", "check(e)", "pass"))
    assert forgotten is not None and b"    if e:\n        pass\n    return" in forgotten[1]
    worded = product.mutated(Mutant("b", "report", "", "e + 1", "e"))
    assert worded is not None and b"    return f'{e} of {e}'" in worded[1]
