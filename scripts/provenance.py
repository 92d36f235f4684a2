"""From which sources a script makes a record: as `Provenance` of the library tells it."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def revision(root=ROOT):
    """The commit, with `-dirty` if anything but records was changed or added since; None outside a checkout."""
    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--", ".", ":(exclude)data/records")
    return (git("rev-parse", "--short=12", "HEAD") + ("-dirty" if changed else "")) or None


def unrecordable(root=ROOT):
    """Why nothing may be recorded now, or None: nobody could run again what was made from a tree with changes."""
    if (revision(root) or "").endswith("-dirty") and not os.environ.get("LASTLAYER_DIRTY"):
        return "the tree has changes; commit them first, or set LASTLAYER_DIRTY=1 for a try that is not kept"
    return None
