"""The size and shape of the package, in numbers: ``python -m tests.structure`` prints them."""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "privatelr"
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


def journey(call):
    """Depth of our own calls within `call`, how many of our functions it enters, and our types."""
    depth, deepest, functions, types = 0, 0, set(), set()
    ours = str(PACKAGE)

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
    return {"call depth": deepest, "functions": len(functions), "types": len(types)}


def one_fit():
    """The first fit of README, after imports, without its first stage."""
    from privatelr import dplr, load_dataset, load_schema

    data, public = load_dataset("anes96"), load_schema("anes96")

    def fit():
        dplr("vote ~ age + selfLR", data, eps=1.0, do_scale=False, **public)

    fit()
    return fit


def main():
    """Print every measure on a line of its own."""
    for name, value in {**sizes(), **journey(one_fit())}.items():
        print(f"{name:30} {value if not isinstance(value, list) else ', '.join(value) or 'none'}")


if __name__ == "__main__":
    main()
