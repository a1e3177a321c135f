"""A hook of MkDocs: pages keep their paths in the repository, so that a link which works on GitHub
works on the site.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

OUTSIDE = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE",
    "dpicl/models/bundled/README.md",
    "tools/site/iframe-worker.js",
)
"""Files beside docs that pages link to, or need."""


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Name every page by its path from the root of the repository."""
    docs = Path(config.docs_dir)
    root = docs.parent
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    for path in [
        *(root / name for name in OUTSIDE),
        *sorted(path for path in docs.rglob("*") if path.is_file()),
    ]:
        files.append(
            File(
                path.relative_to(root).as_posix(),
                str(root),
                config.site_dir,
                config.use_directory_urls,
            )
        )


def on_page_markdown(markdown: str, **_: object) -> str:
    """Of a block that is a file, show its name; drop marks that only the tests of these pages
    read.
    """
    named = re.sub(r"^```(\w+) file=(\S+)$", r'```\1 title="\2"', markdown, flags=re.MULTILINE)
    return re.sub(r"^```text noise$", "```text", named, flags=re.MULTILINE)
