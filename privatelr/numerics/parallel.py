"""Work that threads do in parallel, with results put together in a fixed order.

What is summed, and in which order, does not depend on the number of threads, so neither does
any result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import count
from threading import Condition, Lock
from typing import TYPE_CHECKING, TypeVar

from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    import threadpoolctl
else:
    threadpoolctl = lazy_import("threadpoolctl")

Item = TypeVar("Item")
T = TypeVar("T")
_MOST = 16
"""Largest number of threads; more would only wait for memory."""
_AHEAD = 4
"""Number of terms of a sum that may wait for the terms before them."""
_LIMIT: ContextVar[int | None] = ContextVar("limit", default=None)


@contextmanager
def threads(limit: int) -> Iterator[None]:
    """Limit the number of threads that work on one fold within the block."""
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def alone() -> bool:
    """Whether only one thread is allowed; kernels that cannot leave this thread need that."""
    return _LIMIT.get() == 1


def in_order(compute: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
    """``[compute(item) for item in items]``, several at a time.

    Items are taken in order, each when a thread is free for it, so that those of an iterator are
    never all in memory. `compute` should spend its time in NumPy, which lets other threads run. The
    threads of the linear algebra library are left out: on a small block they wait for each other.
    If it fails, the error is that of the first item that failed, or that could not be taken.
    """
    limit = _LIMIT.get()
    if limit is None:
        known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        limit = min(known or 1, _MOST)
    helpers = (min(limit, len(items)) if isinstance(items, Sized) else limit) - 1
    blas = _libraries()
    with blas.limit(limits=1, user_api="blas") if blas.lib_controllers else nullcontext():
        if helpers < 1:
            return [compute(item) for item in items]
        done: dict[int, T] = {}
        failed: dict[int, BaseException] = {}
        source, places, taking = iter(items), count(), Lock()

        def work() -> None:
            """Take items that are not taken yet, until all are taken or one has failed."""
            while not failed:
                with taking:  # one thread at a time, since a generator allows no more
                    place = next(places)
                    try:
                        item = next(source)
                    except StopIteration:
                        return
                    except BaseException as error:
                        failed[place] = error
                        return
                try:
                    done[place] = compute(item)
                except BaseException as error:
                    failed[place] = error

        # they start with the settings of this thread, NumPy's treatment of errors among them
        started = [_pool().submit(copy_context().run, work) for _ in range(helpers)]
        work()
        for helper in started:
            if not helper.cancel():  # a helper that has not started is not needed any more
                helper.result()
        if failed:
            raise failed[min(failed)]
        return [done[place] for place in range(len(done))]


def summed(compute: Callable[[Item], T], items: Iterable[Item], add: Callable[[T, T], T]) -> T:
    """``reduce(add, in_order(compute, items))`` of one item or more.

    Few terms are held at a time: a thread whose term is far from its turn waits for the others.
    """
    total: list[T] = []
    early: dict[int, T] = {}  # terms that are there before those ahead of them
    turn, given_up, changed = 0, False, Condition()

    def contribute(numbered: tuple[int, Item]) -> None:
        nonlocal turn, given_up
        place, item = numbered
        try:
            term = compute(item)
            with changed:
                changed.wait_for(lambda: place <= turn + _AHEAD or given_up)
                early[place] = term
                while turn in early:
                    found = early.pop(turn)
                    total[:] = [add(total[0], found) if total else found]
                    turn += 1
                changed.notify_all()
        except BaseException:
            with changed:
                given_up = True  # a thread must not wait for a term that will never come
                changed.notify_all()
            raise

    numbered = enumerate(items)  # of known items there may be fewer than threads
    in_order(contribute, [*numbered] if isinstance(items, Sized) else numbered)
    return total[0]


@cache
def _pool() -> ThreadPoolExecutor:
    """Return a pool of threads, since starting a thread can take longer than a block of rows."""
    return ThreadPoolExecutor(_MOST, thread_name_prefix="privatelr")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # the threads stay with the parent


@cache
def _libraries() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()
