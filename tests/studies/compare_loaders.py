"""Does a new loader of release files accept what the old one refuses?

    git worktree add ../before COMMIT
    python -m tests.studies.compare_loaders ../before 10000

Saved files are tampered with, their hashes repaired, and both packages read them: the one of the
other tree, in a process of its own, and the one here. A change of the reader may refuse more; it
may not accept more.
"""

import json
import random
import subprocess
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

TESTS = Path(__file__).parents[1]
READ = """
import sys
sys.path.insert(0, sys.argv[1])
import json
import os
from pathlib import Path
from privatelr import ReleaseFileError, load
from privatelr.results.release_files import canonical, release_document
os.chdir(sys.argv[3])
for case in Path(sys.argv[2]).read_bytes().splitlines():
    Path("model.json").write_bytes(case)
    try:
        document = release_document(load("model.json"))
        document = {k: v for k, v in document.items() if k not in ("written_by", "sha256")}
        print(json.dumps([True, canonical(document).decode()]))
    except ReleaseFileError as error:
        print(json.dumps([False, str(error)]))
"""
NEAR = (1 + 1e-12, 1 + 1e-10, 1 - 1e-10, 1 + 2e-9, 1 + 1e-8, 0.5, 2)
ODD_NUMBERS = (5e-324, 1e-101, 1e101, -0.0, 0, True, None)
ODD_TEXTS = ("l1", "void: x", None)


def main(before, count):
    """Print how many of the cases both read alike; fail if the loader here accepts more."""
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = Path(folder) / "cases"
        cases.write_bytes(b"\n".join(tampered(int(count))))
        old, new = (verdicts(tree, cases) for tree in (before, TESTS.parent))
    both = [first for first, second in zip(old, new, strict=True) if first == second and first[0]]
    more = [first for first, second in zip(old, new, strict=True) if second[0] and not first[0]]
    less = [second for first, second in zip(old, new, strict=True) if first[0] and not second[0]]
    print(f"{len(old)} cases, {len(both)} accepted by both with the same content")
    print(f"accepted only by the loader before: {len(less)}", *less[:5], sep="\n  ")
    print(f"accepted only by the loader here: {len(more)}", *more[:5], sep="\n  ")
    sys.exit(bool(more))


def verdicts(tree, cases):
    """For each case whether this tree's package accepts it, and its content or what is wrong."""
    with TemporaryDirectory() as folder:
        paths = str(Path(tree).resolve()), str(cases), folder
        command = [sys.executable, "-W", "ignore", "-c", READ, *paths]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def tampered(count, seed=1):
    """Documents with one or two entries changed, or one by very little."""
    sys.path[:0] = [str(TESTS), str(TESTS / "support")]
    from results.test_release_file_fuzz import broken, rehashed, spelled

    rng, whole = random.Random(seed), documents()
    for index in range(count):
        document = whole[index % len(whole)]
        change = moved if index // len(whole) % 3 == 2 else broken
        yield spelled(rehashed(change(document, rng)), rng)


def documents():
    """A fresh fit of each kind."""
    from kinds_of_fits import FITS

    from privatelr.results.release_files import release_document

    return [json.loads(json.dumps(release_document(make()))) for make in FITS.values()]


def moved(document, rng):
    """A document with one number or text moved by a little, or to an end of its range."""
    from results.test_release_file_fuzz import at, places

    copy = json.loads(json.dumps(document))
    leaves = [p for p in places(copy) if isinstance(at(copy, p), int | float | str)]
    path = rng.choice([p for p in leaves if p != ("sha256",)])
    parent, value = at(copy, path[:-1]), at(copy, path)
    if isinstance(value, str):
        near = (value + " ", value[1:], value + "\n", "\u202e" + value, value.upper())
        parent[path[-1]] = rng.choice([*near, *ODD_TEXTS])
    else:
        near = [value * factor for factor in NEAR]
        typed = (-value, value + 1, value - 1, float(value), str(value), [value], int(value))
        parent[path[-1]] = rng.choice([*near, *typed, *ODD_NUMBERS])
    return copy


if __name__ == "__main__":
    main(*sys.argv[1:])
