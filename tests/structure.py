"""The size and shape of the package, in numbers: ``python -m tests.structure`` prints them."""

import ast
import contextlib
import io
import sys
import tempfile
import tokenize
import warnings
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "privatelr"
INSTALLED = Path(find_spec("privatelr").origin).parent
"""What runs, which is a copy where the package is installed and not linked."""
MODULES = sorted(PACKAGE.rglob("*.py"))
QUIET = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}


def code_lines(source):
    """How many lines hold code: neither blank, nor comment, nor docstring."""
    spoken = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            spoken |= set(range(node.lineno, node.end_lineno + 1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    held = (range(t.start[0], t.end[0] + 1) for t in tokens if t.type not in QUIET)
    return len({line for lines in held for line in lines} - spoken)


def sizes():
    """Modules, code lines, the fullest folder, and names used twice."""
    sources = {path: path.read_text(encoding="utf-8") for path in MODULES}
    modules = Counter(path.stem for path in MODULES if path.stem != "__init__")
    classes = Counter(
        node.name
        for source in sources.values()
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    )
    return {
        "modules": len(MODULES),
        "code lines": sum(map(code_lines, sources.values())),
        "modules of the fullest folder": max(Counter(p.parent for p in MODULES).values()),
        "module names used twice": [name for name, times in modules.items() if times > 1],
        "class names used twice": [name for name, times in classes.items() if times > 1],
    }


KINDS = ("privacy/noise", "sources", "design", "numerics", "results")
"""Folders of classes that are kinds of one thing: laws, data, specifications, rows and fits."""


def kinds_told_apart():
    """Count the calls of ``isinstance`` with a kind of our own, and the uses of ``Any``."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
    kinds = {
        top.name
        for path, tree in trees.items()
        if path.relative_to(PACKAGE).as_posix().startswith(KINDS)
        for top in tree.body
        if isinstance(top, ast.ClassDef)
    }
    asked = anys = 0
    for tree in trees.values():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
                    names = {n.id for n in ast.walk(kind) if isinstance(n, ast.Name)}
                    names |= {n.attr for n in ast.walk(kind) if isinstance(n, ast.Attribute)}
                    asked += bool(names & kinds)
                case ast.Name(id="Any"):
                    anys += 1
    return {"isinstance of kinds": asked, "uses of Any": anys}


def journey(call):
    """Depth of our own calls within `call`, and our functions, modules and types that it enters."""
    depth, deepest, functions, types = 0, 0, set(), set()
    ours = (str(PACKAGE), str(INSTALLED))

    def record(made):
        if getattr(made, "__module__", "").startswith("privatelr"):
            types.add(made.__name__)

    def watch(frame, event, _):
        nonlocal depth, deepest
        code = frame.f_code
        if event == "call" and "_cls" in frame.f_locals:  # a named tuple is made
            record(frame.f_locals["_cls"])
        elif event == "call" and code.co_name in ("__init__", "__post_init__", "__new__"):
            record(type(frame.f_locals.get(code.co_varnames[0])))
        if not code.co_filename.startswith(ours) or code.co_name.startswith("<"):
            return
        if event == "call":
            depth += 1
            deepest = max(deepest, depth)
            functions.add(code)
        elif event == "return":
            depth -= 1

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {
        "depth": deepest,
        "functions": len(functions),
        "modules": len({code.co_filename for code in functions}),
        "types": len(types),
    }


def journeys():
    """Return three calls after imports: the default one, one with intervals, one of a file.

    Each is made once before it is returned, so that nothing is loaded while it is measured. The
    one with intervals has a seed, because the functions it enters depend on the noise.
    """
    from privatelr import dplr, load_dataset, load_schema
    from privatelr.cli import main as command

    data, public = load_dataset("anes96"), load_schema("anes96")
    folder = Path(tempfile.mkdtemp())
    for part in range(2):  # a folder of files is read as a stream
        data.to_parquet(folder / f"{part}.parquet")
    schema = PACKAGE.parent / "datasets" / "anes96.toml"

    def default():
        dplr("vote ~ age + selfLR", data, eps=1.0, **public)

    def inference():
        with warnings.catch_warnings(action="ignore"):  # a seed is warned of
            fit = dplr("vote ~ age + selfLR", data, eps=3.0, spend="inference", seed=1, **public)
        fit.conf_int()

    def stream():
        arguments = ["fit", str(folder), "vote ~ age + selfLR", "--schema", str(schema)]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            command([*arguments, "--eps", "1"])

    calls = {"default call": default, "inference call": inference, "command on a stream": stream}
    for call in calls.values():
        call()
    return calls


def measures():
    """Return every measure by its name."""
    found = {**sizes(), **kinds_told_apart()}
    for title, call in journeys().items():
        found |= {f"{title}: {name}": size for name, size in journey(call).items()}
    return found


def main():
    """Print every measure on a line of its own."""
    for name, value in measures().items():
        print(f"{name:35} {value if not isinstance(value, list) else ', '.join(value) or 'none'}")


if __name__ == "__main__":
    main()
