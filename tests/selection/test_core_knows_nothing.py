"""The core of the package knows neither the mechanisms that choose nor their classes."""

import ast
import re
from pathlib import Path

import privatelr

PACKAGE = Path(privatelr.__file__).parent
SELECTION = PACKAGE / "selection"
APART = (
    *("selection", "cli", "audit"),
    *("__init__.py", "estimators/__init__.py"),  # public names
)


def test_no_module_of_the_core_names_them():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SELECTION.glob("*.py")]
    names = {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    assert {"SelectedFit", "Selections", "SelectionCalibration", "PrivateFTRL"} <= names
    words = re.compile(rf"\b(privatelr\.selection|{'|'.join(sorted(names))})\b")
    found = {
        path.relative_to(PACKAGE).as_posix(): words.findall(path.read_text(encoding="utf-8"))
        for path in PACKAGE.rglob("*.py")
        if not path.relative_to(PACKAGE).as_posix().startswith(APART)
    }
    assert {path: what for path, what in found.items() if what} == {}
