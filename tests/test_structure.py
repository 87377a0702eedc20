"""The package stays small enough to find one's way in: few modules, names used once."""

import ast

import pytest
from structure import MODULES, PACKAGE, code_lines, journey, measures

OPTIONAL = {
    *("dask", "distributed", "dp_accounting", "matplotlib"),
    *("great_tables", "opendp", "pyarrow", "sklearn"),
}
MOST = {
    "modules": 226,
    "code lines": 36_810,
    "modules of the fullest folder": 16,
    "isinstance of kinds": 16,
    "uses of Any": 1_535,
    "default call: depth": 14,
    "default call: functions": 298,
    "default call: modules": 48,
    "default call: types": 32,
    "inference call: depth": 16,
    "inference call: functions": 451,
    "inference call: modules": 59,
    "inference call: types": 50,
    "command on a stream: depth": 22,
    "command on a stream: functions": 574,
    "command on a stream: modules": 79,
    "command on a stream: types": 55,
}
"""What the package may have at most. These numbers only fall."""


def test_the_package_does_not_grow():
    found = measures()
    assert found["module names used twice"] == []
    assert found["class names used twice"] == []
    assert {name: found[name] for name in MOST if not 0 < found[name] <= MOST[name]} == {}


def test_lines_of_code_are_counted():
    assert code_lines('"""Doc."""\n\n# note\nx = """a\nb"""\n\n\ndef f():\n    "Doc."\n') == 3


def test_calls_are_counted():
    nested = PACKAGE / "nested.py"
    space = {}
    exec(compile("def a():\n    b()\ndef b():\n    pass\n", str(nested), "exec"), space)
    assert journey(space["a"])["depth"] == 2


def imports_inside_functions(tree):
    """Modules imported in a function, where only optional libraries may be."""
    return [
        name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or node.names[0].name]
        if name.split(".")[0] not in OPTIONAL
    ]


def untyped_doors(tree):
    """Lazy imports that are not the ``else`` of an ``if TYPE_CHECKING`` with the same import."""
    proper = set()
    for top in tree.body:
        if isinstance(top, ast.If) and ast.unparse(top.test) == "TYPE_CHECKING":
            typed = {
                (f"{folder}.{alias.name}".removeprefix("."), alias.asname or alias.name)
                for node in top.body
                if isinstance(node, ast.Import | ast.ImportFrom)
                for folder in [getattr(node, "module", "")]
                for alias in node.names
            }
            for node in top.orelse:
                match node:
                    case ast.Assign(
                        targets=[ast.Name(id=local)],
                        value=ast.Call(args=[ast.Constant(value=str(name))], keywords=[]) as call,
                    ) if (name, local) in typed:
                        proper.add(call.func)
    loads = {"lazy_import", "import_module", "importlib.import_module", "__import__"}
    return [
        f"{ast.unparse(node)} on line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and ast.unparse(node) in loads
        and node not in proper
    ]


def offences(source):
    tree = ast.parse(source)
    return imports_inside_functions(tree) + untyped_doors(tree)


def test_imports_stand_at_the_top_or_in_typed_doors():
    apart = {PACKAGE / "lazy_import.py", PACKAGE / "__init__.py"}
    found = {path: offences(path.read_text(encoding="utf-8")) for path in {*MODULES} - apart}
    assert {path: what for path, what in found.items() if what} == {}


DOOR = "if TYPE_CHECKING:\n    from privatelr.results.pages import card\nelse:\n    {}"


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    import statsmodels",
        "def f():\n    return lazy_import('privatelr.results.pages.card')",
        "card = lazy_import('privatelr.results.pages.card')",
        DOOR.format("card = lazy_import('privatelr.results.pages.forest')"),
        DOOR.format("card = lazy_import('privatelr.results.' + 'card')"),
        DOOR.format("cards = lazy_import('privatelr.results.pages.card')"),
        "import importlib\nimportlib.import_module('privatelr.audit')",
        "__import__('privatelr.design')",
    ],
)
def test_planted_imports_are_caught(source):
    assert offences(source)


def test_a_typed_door_is_allowed():
    assert offences(DOOR.format("card = lazy_import('privatelr.results.pages.card')")) == []
