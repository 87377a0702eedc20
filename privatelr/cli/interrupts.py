"""How a command answers to Ctrl-C and to a request to end while it works, and when it has.

Python turns an interrupt into an exception wherever it happens to be. While modules are
imported or an interpreter ends there is no place to catch it, and it would end in a traceback;
for the time before the work see the first lines of the package.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Handler = Callable[[int, Any], Any]

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit statuses, as a shell reports programs that the signals end."""


class Terminated(BaseException):
    """SIGTERM has arrived; what is half done is to be cleared away."""


@contextmanager
def raising() -> Iterator[None]:
    """Within the block the first interrupt or SIGTERM is an exception, and the next ends all.

    When the interpreter ends, the work is done, and an interrupt changes nothing.
    """

    def interrupt(*_: Any) -> None:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        raise KeyboardInterrupt

    def terminate(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    atexit.unregister(_ignore_interrupts)
    atexit.register(_ignore_interrupts)
    with _handled(signal.SIGINT, interrupt), _handled(signal.SIGTERM, terminate):
        yield


@contextmanager
def _handled(number: int, handler: Handler) -> Iterator[None]:
    """Another handler within the block, unless the signal is ignored, as it is under nohup."""
    before = signal.getsignal(number)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before is None or before == signal.SIG_IGN:
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
