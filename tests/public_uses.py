"""Which public names Python code uses: as it imports them, and not by words that look alike."""

from __future__ import annotations

import ast

PACKAGE = "privatelr"
MODULES = ("audit", "datasets", "estimators", "inference", "mechanisms", "privacy")
"""Modules of the package with a page of their own in the reference."""

_SCOPES = (
    ast.FunctionDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
)


class _Uses(ast.NodeVisitor):
    """Paths that names stand for where they are read; a name that is assigned stands for none."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._paths: dict[str, str] = {}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._paths[name] = alias.name if alias.asname else name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._paths[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)  # in `plan = plan(...)` the right one is read first
        for target in node.targets:
            self.visit(target)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
        else:
            self._paths.pop(node.id, None)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        dotted = ast.unparse(node)
        if all(part.isidentifier() for part in dotted.split(".")):
            self._read(dotted)
        else:
            self.visit(node.value)

    def visit(self, node: ast.AST) -> None:
        """Visit a node; what is bound in a scope of its own is bound there alone."""
        if not isinstance(node, _SCOPES):
            super().visit(node)
            return
        outer = dict(self._paths)
        for one in ast.walk(node):
            if isinstance(one, ast.arg):
                self._paths.pop(one.arg, None)
        for made in getattr(node, "generators", []):  # they bind what stands before them
            self.visit(made)
        self.generic_visit(node)
        self._paths = outer
        self._paths.pop(getattr(node, "name", ""), None)

    def _read(self, dotted: str) -> None:
        """Note what a name stands for, and each module or class that it is an attribute of."""
        name, _, rest = dotted.partition(".")
        path = self._paths.get(name)
        if path is None or path.partition(".")[0] != PACKAGE:
            return
        parts = f"{path}.{rest}".rstrip(".").split(".")
        self.found |= {".".join(parts[:end]) for end in range(2, len(parts) + 1)}


def uses(code: str) -> set[str]:
    """Paths such as ``privatelr.audit.search`` that code reads, however it has imported them."""
    visitor = _Uses()
    visitor.visit(ast.parse(code))
    return visitor.found
