"""How a command answers to Ctrl-C and to a request to end, from its first moment to its last.

Python turns an interrupt into an exception wherever it happens to be. While modules are
imported or an interpreter ends there is no place to catch it, and it would end in a traceback.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Handler = Callable[[int, Any], Any]

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit statuses, as a shell reports programs that the signals end."""


class Terminated(BaseException):
    """SIGTERM has arrived; what is half done is to be cleared away."""


@contextmanager
def leaving_at_once(program: str) -> Iterator[None]:
    """Within the block an interrupt ends the process with one line: there is nothing to clear.

    After it, the work is done, and an interrupt of the interpreter's own end changes nothing.
    """

    def leave(*_: Any) -> None:
        with suppress(OSError):
            os.write(2, f"{program}: interrupted.\n".encode())
        os._exit(INTERRUPTED)

    with _handled(signal.SIGINT, leave):
        yield
    atexit.unregister(_ignore_interrupts)
    atexit.register(_ignore_interrupts)


@contextmanager
def raising() -> Iterator[None]:
    """Within the block the first interrupt or SIGTERM is an exception, and the next ends all."""

    def interrupt(*_: Any) -> None:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        raise KeyboardInterrupt

    def terminate(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

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
