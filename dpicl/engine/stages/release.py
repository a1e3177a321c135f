"""Publishing what a model drafted from private rows on a worker."""

from __future__ import annotations

from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.engine.stages.charge import publish_drafts


@unit_stage("release", lambda folder: folder.method.artefact)
def release(folder: UnitFolder) -> str:
    """Publish what was drafted, unless something is published already, and read back what stands."""
    return publish_drafts(folder)
