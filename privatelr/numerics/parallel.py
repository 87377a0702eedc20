"""Work that is done side by side and put together in order.

What is summed, and in which order, does not depend on the number of threads, so neither does
any result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache
from threading import Condition
from typing import Any, Generic, TypeVar, cast

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
_MOST = 16
"""Threads beyond which one memory serves no more of them."""
_AHEAD = 4
"""Terms of a sum that may be kept until those before them are there."""
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
    linear algebra library are left out: on a small block they wait for each other. If it fails,
    the error is that of the first item that failed.
    """
    helpers = min(_available(), len(items)) - 1
    with _library_threads(1):
        if helpers < 1:
            return [compute(item) for item in items]
        share = _Share(compute, items)
        # they start with the settings of this thread, NumPy's treatment of errors among them
        started = [_pool().submit(copy_context().run, share.work) for _ in range(helpers)]
        share.work()
        for helper in started:
            if not helper.cancel():  # one that no thread was free to start is not needed any more
                helper.result()
        return share.results()


def summed(compute: Callable[[int], T], items: Sequence[int], add: Callable[[T, T], T]) -> T:
    """``reduce(add, in_order(compute, items))`` of one item or more.

    Few terms are held at a time: who is far ahead of the others waits for them.
    """
    total = _Total(add)

    def contribute(place: int) -> None:
        try:
            total.take(place, compute(items[place]))
        except BaseException:
            total.give_up()  # no thread may wait for a term that does not come
            raise

    in_order(contribute, range(len(items)))
    return total.of_all()


class _Total(Generic[T]):
    """A sum of terms in their order, which come in any."""

    def __init__(self, add: Callable[[T, T], T]) -> None:
        self._add = add
        self._early: dict[int, T] = {}
        self._sum: list[T] = []
        self._next = 0
        self._given_up = False
        self._changed = Condition()

    def take(self, place: int, term: T) -> None:
        """Add a term, or keep it until those before it are there."""
        with self._changed:
            while place > self._next + _AHEAD and not self._given_up:
                self._changed.wait()
            self._early[place] = term
            while self._next in self._early:
                found = self._early.pop(self._next)
                self._sum = [self._add(self._sum[0], found) if self._sum else found]
                self._next += 1
            self._changed.notify_all()

    def give_up(self) -> None:
        """Let everybody go on who waits."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def of_all(self) -> T:
        """The sum, once all terms have been taken."""
        return self._sum[0]


class _Share(Generic[T]):
    """Items that several threads take, each the next that none has taken."""

    def __init__(self, compute: Callable[[int], T], items: Sequence[int]) -> None:
        self._compute, self._items = compute, items
        self._places = iter(range(len(items)))
        self._done: list[T | None] = [None] * len(items)
        self._failed: dict[int, BaseException] = {}

    def work(self) -> None:
        """Take items until none is left, or one has failed."""
        for place in self._places:
            if self._failed:
                return
            try:
                self._done[place] = self._compute(self._items[place])
            except BaseException as error:
                self._failed[place] = error

    def results(self) -> list[T]:
        """What became of all items, or the error of the first that failed."""
        if self._failed:
            raise self._failed[min(self._failed)]
        return cast("list[T]", self._done)


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that wait for work: starting one takes longer than many a block."""
    return ThreadPoolExecutor(_MOST, thread_name_prefix="privatelr")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # the threads stay with the parent


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
