"""Where all commands print, and how one ends that was interrupted."""

from rich.console import Console

console = Console(markup=False, emoji=False)
INTERRUPTED = 130
"""Exit code, as shells give it."""
