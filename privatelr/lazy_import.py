"""Import a module when it is first used.

Imports usually stand at the top of a file. A lazy import is for modules that are not needed to
call a model and that would make ``import privatelr`` half as long again: flint, which draws
noise, and the pages, files, cards, inference, audits and plans. Such a module is named twice,
for type checkers and for Python::

    if TYPE_CHECKING:
        from privatelr.results.pages import card
    else:
        card = lazy_import("privatelr.results.pages.card")

SciPy does not need it: after ``import scipy`` it loads ``scipy.special`` and the like by itself at
first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Later:
    """Stands in for a module, and has its attributes as its own once one was asked for."""

    __slots__ = ("__dict__", "_name")

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        module = import_module(self._name)
        self.__dict__ = module.__dict__
        return getattr(module, attribute)

    def __repr__(self) -> str:
        return f"<{self._name}, imported when first used>"


def lazy_import(name: str) -> Any:
    """Return a stand-in for the module `name`, such as ``"privatelr.results.pages.card"``."""
    return _Later(name)
