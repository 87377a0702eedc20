"""A save that is killed leaves the target as it was, and savers at once do not meet."""

import subprocess
import sys
import threading
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


def test_a_name_of_any_length_has_room(tmp_path):
    target = tmp_path / ("ü" * 120 + ".json")
    replace_file(target, b"here")
    assert others(tmp_path) == [target.name]


def test_savers_at_once_do_not_take_each_others_files(tmp_path):
    target, failed = tmp_path / "model.json", []

    def save(number):
        try:
            for _ in range(60):
                replace_file(target, b"%d" % number)
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failed == []
    assert others(tmp_path) == ["model.json"]
    assert target.read_bytes() in [b"%d" % number for number in range(6)]
