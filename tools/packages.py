"""What dpicl is built on: the page of direct dependencies, and a bill of materials of an
installation.

    python -m tools.packages > sbom.json    CycloneDX 1.6: every package of requirements.lock, where
                                            its files come from, every shipped file

Why a dependency is there stands behind it in pyproject.toml; versions, dates and sizes come from
uv.lock, licences from what is installed.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from dpicl.ground.cache import DIGESTS

ROOT = Path(__file__).parent.parent
_DEPENDENCY = re.compile(r'^    "([\w-]+)(\S*)",  # (.+)$|^([\w-]+) = \[$', re.MULTILINE)
_OURS = "manylinux.*x86_64|none-any"
_MEGABYTE = 1e6


def locked() -> dict[str, dict[str, Any]]:
    """The packages of uv.lock by name; of several versions that for the oldest Python."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]
    return {package["name"]: package for package in reversed(packages)}


def licence(name: str) -> str:
    """As its package states it, in the newer way or one of the older ones; empty where it does
    not.
    """
    try:
        told = metadata(name)
    except PackageNotFoundError:
        return ""
    classified = [
        text.rpartition(" :: ")[2]
        for text in told.get_all("Classifier", [])
        if re.match("License :: .* :: ", text)
    ]
    stated, earlier = (
        str((told.get_all(key) or [""])[0]).strip() for key in ("License-Expression", "License")
    )
    lines = (stated, ", ".join(classified), earlier.partition("\n")[0])
    return next((line for line in lines if line), "")


def direct() -> Iterator[tuple[str, str, str]]:
    """Package, the extra that brings it, and why, in the order of pyproject.toml."""
    extra = ""
    for name, _, why, heading in _DEPENDENCY.findall(
        (ROOT / "pyproject.toml").read_text("utf-8").partition("[project.scripts]")[0]
    ):
        extra = extra if name else heading
        if name:
            yield name, "" if extra == "dependencies" else extra, why


def download(package: Mapping[str, Any]) -> tuple[str, str]:
    """When this version came out, and megabytes of its file for Linux on x86, or for any
    machine.
    """
    files = [wheel for wheel in package.get("wheels", ()) if re.search(_OURS, wheel["url"])] or [
        package["sdist"]
    ]
    file = next((file for file in files if "cp311" in file["url"]), files[-1])
    return file["upload-time"][:10], f"{file['size'] / _MEGABYTE:.1f}"


def sbom() -> dict[str, Any]:
    """Of an installation to run with, as JSON; the same for the same lock and licences."""
    packages, components = locked(), list[dict[str, Any]]()
    for name in sorted(
        set(
            re.findall(
                r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE
            )
        )
    ):
        package, said = packages[name], licence(name)
        files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else [])]
        component = {
            "type": "library",
            "name": name,
            "version": package["version"],
            "purl": f"pkg:pypi/{name}@{package['version']}",
        }
        came_from = [
            {
                "type": "distribution",
                "url": file["url"],
                "hashes": [{"alg": "SHA-256", "content": file["hash"].removeprefix("sha256:")}],
            }
            for file in files
        ]
        stated = {"licenses": [{"license": {"name": said}}]} if said else {}
        components.append(
            component | {"bom-ref": component["purl"]} | stated | {"externalReferences": came_from}
        )
    for name, digest in json.loads(DIGESTS.read_text("utf-8")).items():
        components.append(
            {
                "type": "file",
                "name": name,
                "bom-ref": f"file:{name}",
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
        )
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    content: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "dpicl",
                "version": version,
                "bom-ref": "dpicl",
            }
        },
        "components": components,
        "dependencies": [
            {"ref": "dpicl", "dependsOn": [component["bom-ref"] for component in components]}
        ],
    }
    return content | {"serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, json.dumps(content))}"}


if __name__ == "__main__":
    json.dump(sbom(), sys.stdout, indent=1)
