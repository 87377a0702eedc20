"""What an audit found, as a table."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from privatelr.audit.plot import write_plot

if TYPE_CHECKING:
    from pathlib import Path

_DIFFERS = 1e-6
_LEGEND = """\
exact     largest loss found, from densities: epsilon, rho, or delta at the claimed epsilon
of claim  exact over the claim; above 1 the claim is wrong
of bound  the same without the hundredth that covers the distance to the exact minimiser
sampled   lower bound from outputs alone, wrong once in 1,000 audits"""
_LEGEND_DIFFERS = """\
DIFFERS   real releases do not have the law that was audited"""


@dataclass(frozen=True, slots=True)
class Row:
    """One mechanism, one loss, one claim.

    Attributes
    ----------
    placement : str
    loss : str
        Its name, and in brackets its parameters.
    claim : str
    claimed : float
        Its epsilon, rho or delta.
    exact : float
        The largest that was found, from densities.
    attained : float
        Share of its bound that the tilt (or the noise on the minimiser) reached.
    where : str
        The setting and the kind of pair.
    sampled : float
        Lower bound from outputs alone, at the pair of `Setting` 1.
    differs : float
        p-value of real releases against modelled ones; small means that they differ.
    """

    placement: str
    loss: str
    claim: str
    claimed: float
    exact: float
    attained: float
    where: str
    sampled: float
    differs: float

    @property
    def ratio(self) -> float:
        """``exact / claimed``."""
        return self.exact / self.claimed

    @property
    def verdict(self) -> str:
        """``"ok"``, ``"VIOLATION"``, or ``"DIFFERS"`` if releases are not what was audited."""
        if not self.ratio <= 1 + 1e-6 or self.sampled > self.claimed:
            return "VIOLATION"
        return "DIFFERS" if self.differs < _DIFFERS else "ok"

    def __str__(self) -> str:
        sampled = "-" if math.isnan(self.sampled) else f"{self.sampled:.3g}"
        return (
            f"{self.placement:<10}{self.loss:<14}{self.claim:<29}{self.exact:>9.3g}"
            f"{self.ratio:>9.4f}{self.attained:>9.4f}{sampled:>9}  {self.verdict}"
        )


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found; prints as a table."""

    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether every row is."""
        return all(row.verdict == "ok" for row in self.rows)

    def to_frame(self) -> pd.DataFrame:
        """One row per mechanism, loss and claim."""
        return pd.DataFrame(self._records())

    def to_json(self) -> str:
        """The same as a list of objects: null for what was not sampled, ``"inf"`` for no limit."""
        records = [
            {key: _in_json(value) for key, value in record.items()} for record in self._records()
        ]
        return json.dumps(records, indent=1, allow_nan=False)

    def plot(self, path: str | Path) -> None:
        """Write a picture of the table as .pdf, .png or .svg; takes matplotlib."""
        write_plot(self.rows, path)

    def _records(self) -> list[dict[str, Any]]:
        return [{**asdict(row), "ratio": row.ratio, "verdict": row.verdict} for row in self.rows]

    def __str__(self) -> str:
        head = (
            f"{'mechanism':<10}{'loss':<14}{'claim':<29}{'exact':>9}{'of claim':>9}"
            f"{'of bound':>9}{'sampled':>9}  verdict"
        )
        lines = [str(row) for row in self.rows]
        legend = [_LEGEND]
        if any(row.verdict == "DIFFERS" for row in self.rows):
            legend.append(_LEGEND_DIFFERS)
        return "\n".join([head, "-" * max(map(len, [head, *lines])), *lines, "", *legend])


def _in_json(value: Any) -> Any:
    """JSON has no number that is none and none that is infinite."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)
