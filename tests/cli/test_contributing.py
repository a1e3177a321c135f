"""The contract and the pipeline that CONTRIBUTING.md shows as whole ones are."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import Cli
from tests.harness import Place

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def test_the_contract_and_the_pipeline_that_contributing_adds_run(place: Place, cli: Cli) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (contract,) = (block for block in blocks if block.startswith("version: "))
    (pipelines,) = (block for block in blocks if block.startswith("pipelines:\n"))
    name = re.search(r"^name: (\w+)$", contract, re.MULTILINE)[1]  # type: ignore[index]
    (place.root / "contracts" / f"{name}.yaml").write_text(contract)
    (place.root / "pipelines.yaml").write_text(pipelines)
    rows = [f"{10 * n},{('clay', 'loam', 'sand')[n % 3]},{('no', 'yes')[n % 2]}" for n in range(50)]
    (place.root / "data" / f"{name}.csv").write_text("\n".join(["size,soil,bore", *rows, ""]))
    with place.entered():
        assert f"{name}.yaml: ok: 3 columns" in cli(f"contract check {name}")
        cli(f"data publish {name} --yes")
        assert "fruit" in cli("list")
        told = cli("run fruit --executor pool --epsilons 5 --shots 2")
    report = re.search(r"^report: (.*)$", told, re.MULTILINE)[1]  # type: ignore[index]
    assert "AIM-TabICL" in Path(report).read_text("utf-8")
