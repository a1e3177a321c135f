"""Where everything that is installed comes from: digests in the lock files, the bill of materials,
a stated purpose of every dependency.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from dpicl.ground.cache import DIGESTS
from tools.packages import direct, locked, sbom

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")


def requirements(lock: str) -> dict[str, tuple[str, set[str]]]:
    """Version and digests by package; of several versions the first."""
    found: dict[str, tuple[str, set[str]]] = {}
    for block in re.split(r"\n(?=\S)", (ROOT / lock).read_text("utf-8")):
        match = re.match(r"([\w.-]+)==([^\s;]+)", block)
        assert match is not None, block[:80]
        found.setdefault(
            match[1], (match[2], set(re.findall(r"--hash=sha256:([0-9a-f]{64})\b", block)))
        )
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_of_a_lock_has_the_digests_of_its_files(lock: str) -> None:
    packages = locked()
    for name, (version, digests) in requirements(lock).items():
        files = [
            *packages[name].get("wheels", ()),
            *([packages[name]["sdist"]] if "sdist" in packages[name] else []),
        ]
        known = {file["hash"].removeprefix("sha256:") for file in files}
        assert digests and (version != packages[name]["version"] or known <= digests), name
    assert (
        cpu := re.search(
            r"^TORCH_CPU := (\w{64})$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE
        )
    ) is not None
    assert cpu[1] in requirements(lock)["torch"][1], (
        "else a machine without an accelerator cannot install"
    )


def test_what_runs_is_part_of_what_is_tested() -> None:
    run, tested = (requirements(lock) for lock in LOCKS)
    assert run.items() <= tested.items() and {"pytest", "ruff", "jax"} <= tested.keys() - run.keys()


def test_the_commands_that_install_the_locks_compare_digests() -> None:
    here = r" -r \S*requirements"
    for file, what in (
        ("Makefile", here),
        ("infra/Containerfile", r" -r /tmp/\S*\.lock"),
        ("docs/how-to/install.md", here),
        ("tools/install.sh", r'pip install .*"\$@"'),
    ):
        commands = [
            line for line in (ROOT / file).read_text("utf-8").splitlines() if re.search(what, line)
        ]
        assert commands and all("--require-hashes" in line for line in commands), file


def test_an_installation_says_that_it_compiles_before_it_is_long_silent() -> None:
    make = ["make", "--dry-run", "--always-make", "setup"]
    steps = subprocess.run(
        make, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    (place,) = (number for number, step in enumerate(steps) if "-m compileall" in step)
    assert steps[place - 1].startswith('echo "compiling: ')


def test_the_bill_of_materials_names_every_package_and_shipped_file_with_digests() -> None:
    bill, again = sbom(), sbom()
    assert bill == again and (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    components = {one["name"]: one for one in bill["components"]}
    assert len(components) == len(bill["components"]) == len(bill["dependencies"][0]["dependsOn"])
    packages, files = requirements(LOCKS[0]), json.loads(DIGESTS.read_text("utf-8"))
    assert components.keys() == packages.keys() | files.keys()
    for name, (version, digests) in packages.items():
        assert components[name]["purl"] == f"pkg:pypi/{name}@{version}"
        stated = {one["hashes"][0]["content"] for one in components[name]["externalReferences"]}
        assert stated & digests, name
    assert {name: components[name]["hashes"][0]["content"] for name in files} == files
    unlicensed = [name for name in packages if "licenses" not in components[name]]
    assert len(unlicensed) < len(packages) / 20, unlicensed


def test_every_direct_dependency_says_what_it_is_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [
        one
        for part in (project["dependencies"], *project["optional-dependencies"].values())
        for one in part
    ]
    names = [re.split(r"[^\w-]", one)[0] for one in named if not one.startswith("dpicl[")]
    assert sorted(names) == sorted(name for name, _, _ in direct())
    assert all(why for _, _, why in direct())
