"""A save that is killed leaves the target as it was, and savers at once do not meet."""

import subprocess
import sys
from pathlib import Path

from privatelr.results.release_files import replace_file

SAVER = """
import os, sys
from pathlib import Path
from privatelr.results.release_files import replace_file
os.fsync = lambda descriptor: os._exit(9)
replace_file(Path(sys.argv[1]), b"by another process")
"""


def others(folder, *names):
    return sorted({path.name for path in folder.iterdir()} - set(names))


def test_a_killed_save_leaves_the_target_as_it_was(tmp_path):
    target = tmp_path / "model.json"
    replace_file(target, b"before")
    root = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", SAVER, str(target)], cwd=root, timeout=60)
    assert ended.returncode == 9
    assert target.read_bytes() == b"before"
    (left,) = others(tmp_path, "model.json")
    assert left.startswith(".privatelr-")
    assert left.endswith(".tmp")
    replace_file(target, b"here")
    assert target.read_bytes() == b"here"
