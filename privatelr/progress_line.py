"""How far a pass over the records is: a line on the screen that is removed at the end.

It is redrawn at fixed times, and tells of one pass: how much of it is done, records a second, and
what is left of it. It never counts passes, because their number depends on the data. (The time that
a fit takes depends on it as well.)
"""

from __future__ import annotations

import sys
import time

OFTEN = 0.5
"""Seconds between two drawings."""
_LENGTH = 30
"""Number of characters of the bar."""


def somebody_watches() -> bool:
    """Whether standard error is a screen: a terminal, or a notebook."""
    return "ipykernel" in sys.modules or bool(sys.stderr and sys.stderr.isatty())


class ProgressLine:
    """A line about one pass over so many records, or persons, whose number is public."""

    def __init__(self, what: str, number: int, of: str = "records") -> None:
        self._what, self._number, self._of = what, number, of
        self._began = self._drawn = time.monotonic()
        self._width = 0

    def show(self, share: float) -> None:
        """Draw that this share of the pass is done, unless that was drawn a moment ago."""
        if time.monotonic() - self._drawn >= OFTEN:
            self.draw(share)

    def draw(self, share: float) -> None:
        """Draw that this share of the pass is done."""
        passed = time.monotonic() - self._began
        line = f"{self._what} |{'#' * int(_LENGTH * share):<{_LENGTH}}|"
        if share > 0 and passed > 0:
            rate, left = share * self._number / passed, passed * (1 / share - 1)
            line += f" {rate:,.0f} {self._of} a second," if rate >= 1 else ""
            line += f" {left:.0f} s left"
        self._write(line)

    def remove(self) -> None:
        """Remove the line from the screen."""
        if self._width:
            self._write("")

    def _write(self, line: str) -> None:
        sys.stderr.write(f"\r{line:<{self._width}}" + ("" if line else "\r"))
        sys.stderr.flush()
        self._drawn, self._width = time.monotonic(), len(line)
