"""Work that is done side by side and put together in order.

What is summed, and in which order, does not depend on the number of threads, so neither does
any result.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
_MOST = 16
"""Threads beyond which one memory serves no more of them."""
_LIMIT: ContextVar[int | None] = ContextVar("limit", default=None)


@contextmanager
def threads(limit: int) -> Iterator[None]:
    """Within the block at most so many threads work on one fold."""
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def alone() -> bool:
    """Whether one thread has been asked for: what is folded may then be bound to this one."""
    return _LIMIT.get() == 1


def in_order(compute: Callable[[int], T], items: Sequence[int]) -> list[T]:
    """``[compute(item) for item in items]``, several at a time.

    `compute` should spend its time in NumPy, which lets other threads run. The threads of the
    linear algebra library are left out: on a small block they wait for each other.
    """
    workers = min(_available(), len(items))
    if workers == 1:
        with _library_threads(1):
            return [compute(item) for item in items]
    handling = np.geterr()

    def quietly(item: int) -> T:
        with np.errstate(**handling):  # a thread starts with NumPy's own
            return compute(item)

    with _library_threads(1), ThreadPoolExecutor(workers) as pool:
        return list(pool.map(quietly, items))


def _available() -> int:
    limit = _LIMIT.get()
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(known or 1, _MOST) if limit is None else limit


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def _library_threads(limit: int) -> Any:
    found = _libraries()
    return found.limit(limits=limit, user_api="blas") if found.lib_controllers else nullcontext()
