"""Public names are a promise: what is added, renamed or removed shows in a file that is reviewed.

python -m tests.test_public_names        writes tests/public_names.txt
"""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "tests" / "public_names.txt"
MODULES = ("privatelr", "privatelr.audit", "privatelr.datasets", "privatelr.estimators")
"""Modules that say what of them is public; folders below may change."""


def members(thing):
    """The arguments of a function; the arguments and the public attributes of a class."""
    if not callable(thing):
        return [""]
    try:
        called = ", ".join(map(_argument, inspect.signature(thing).parameters.values()))
    except ValueError:
        called = "..."
    own = [] if not inspect.isclass(thing) or issubclass(thing, BaseException) else _own(thing)
    return [f"({called})", *own]


def _argument(parameter):
    mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    by_name = "=" if parameter.kind is parameter.KEYWORD_ONLY else ""
    return f"{mark}{parameter.name}{by_name}"


def _own(kind):
    found = []
    for name in sorted(name for name in dir(kind) if not name.startswith("_")):
        member = inspect.getattr_static(kind, name)
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if "refuses.<locals>" in getattr(getattr(member, "fget", member), "__qualname__", ""):
            continue
        called = inspect.isfunction(member) and inspect.signature(member).parameters.values()
        arguments = f"({', '.join(map(_argument, called))})" if called else ""
        found.append(f".{name}{arguments}")
    return found


def snapshot():
    """A line for each public name, and for each public attribute of a public class."""
    lines = []
    for module in MODULES:
        found = importlib.import_module(module)
        listed = sorted({*found.__all__} - {"__version__"})
        for name in listed:
            lines += [f"{module}.{name}{end}" for end in members(getattr(found, name))]
    return "".join(f"{line}\n" for line in lines)


def test_public_names_are_those_of_the_file():
    expected = KEPT.read_text(encoding="utf-8").splitlines()
    found = snapshot().splitlines()
    added, gone = (
        sorted({*one} - {*other}) for one, other in ((found, expected), (expected, found))
    )
    assert (added, gone) == ([], []), "python -m tests.test_public_names, and CHANGELOG.md"


@pytest.mark.parametrize("module", MODULES)
def test_names_that_never_were_are_missing(module):
    assert not hasattr(importlib.import_module(module), "never")
    with pytest.raises(ImportError, match="never"):
        exec(f"from {module} import never")


def release(folder, version, changes):
    """What the checklist of a release says of a version and a changelog, before it builds."""
    (folder / "privatelr").mkdir()
    (folder / ".ci").mkdir()
    (folder / "privatelr" / "__init__.py").write_text(f'__version__ = "{version}"\n')
    (folder / "CHANGELOG.md").write_text(changes)
    (folder / ".ci" / "release").write_bytes((ROOT / ".ci" / "release").read_bytes())
    (folder / ".ci" / "build").write_text("#!/bin/sh\necho would build\nexit 7\n")
    for name in ("release", "build"):
        (folder / ".ci" / name).chmod(0o755)
    done = {"cwd": folder, "capture_output": True, "check": True}
    subprocess.run(["git", "init", "-q"], **done)
    subprocess.run(["git", "add", "-A"], **done)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, "commit", "-qm", "a"], **done)
    ran = subprocess.run([".ci/release"], **done | {"check": False}, text=True)
    return ran.returncode, ran.stderr


TOLD = "# Changes\n\n## [1.2.0] - 2026-01-02\n\n### Added\n\n- Something.\n"
UNRELEASED = "# Changes\n\n## [Unreleased]\n\n"


@pytest.mark.skipif(sys.platform == "win32", reason="the checklist is a shell script")
@pytest.mark.parametrize(
    ("version", "changes", "said"),
    [
        ("1.2.0.dev0", TOLD, "is in development"),
        ("1.3.0", TOLD, "CHANGELOG.md has no line '## [1.3.0] - YYYY-MM-DD'"),
        ("1.2.0", "# Changes\n\n## [1.2.0] - 2026-01-02\n", "CHANGELOG.md says nothing of 1.2.0"),
        (
            "1.2.0",
            TOLD.replace("# Changes\n\n", f"{UNRELEASED}### Fixed\n\n- More.\n\n"),
            "has entries under [Unreleased]; move them under the version that is released, 1.2.0",
        ),
    ],
)
def test_a_release_without_its_changes_is_refused(tmp_path, version, changes, said):
    status, words = release(tmp_path, version, changes)
    assert status == 1
    assert said in words


@pytest.mark.skipif(sys.platform == "win32", reason="the checklist is a shell script")
def test_a_release_with_its_changes_goes_on_to_the_build(tmp_path):
    empty = TOLD.replace("# Changes\n\n", UNRELEASED)
    for folder, changes in (("without", TOLD), ("with", empty)):
        (tmp_path / folder).mkdir()
        assert release(tmp_path / folder, "1.2.0", changes)[0] == 7


if __name__ == "__main__":
    KEPT.write_text(snapshot(), encoding="utf-8")
