"""The findings of an audit as a table and as a picture."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privatelr.audit.checks import (
    OK,
    VIOLATION,
    Check,
    claimed_number,
    could_not,
    ruled,
    short,
    table_of,
)
from privatelr.plot_style import (
    BROKEN,
    MAIN,
    QUIET,
    add_legend,
    axes_for,
    ground_of,
    ink_of,
    literal,
    require_plot,
)
from privatelr.privacy import Guarantee
from privatelr.results.release_files import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SLACK = 1e-6
"""A loss may exceed its claim by this share, because of rounding."""
_LINE = "{:<10}{:<{wide}}{:<29}{:>9}{:>9}{:>9}{:>9}  {}"
LAPLACE_MARK = "*"
"""It stands behind a claim with a delta that is audited with Laplace noise on the coefficients."""
_SHARES = {
    "coefficients": "of bound",
    "scale": "scale",
    "inference": "moments",
    "choices": "of bound",
}
"""Each kind of release has its own header for the column with the share of the bound."""
_ALSO = {"scale": " with scale", "inference": " with inference"}
_LEGENDS = {
    "coefficients": """\
exact     largest loss found, from densities: epsilon, rho, or delta at the claimed epsilon
of claim  exact over the claim; above 1 the claim is wrong
of bound  the same without the hundredth that covers the distance to the exact minimiser
sampled   lower bound from outputs alone, wrong once in 1,000 audits""",
    "scale": """\
scale     share of what was paid for the scale of columns that it shows; exact is of both""",
    "inference": """\
moments   share of what was paid for the moments that they show; exact is of both""",
    "choices": """\
choices   exact over all outcomes of tiny cases, on random neighbours that are not the worst""",
    LAPLACE_MARK: f"""\
{LAPLACE_MARK}         Laplace noise on the coefficients; in the row above it is Gaussian""",
}


@dataclass(frozen=True, slots=True)
class Row:
    """The audit of one mechanism with one loss under one claim.

    Attributes
    ----------
    placement : str
    loss : str
        The name of the loss, with its parameters in brackets.
    claim : str
    claimed : float
        The epsilon, rho or delta of the claim.
    exact : float
        The largest privacy loss that was found, computed from densities.
    attained : float
        The share of its bound that the loss of the tilt (or of the noise on the minimiser) reached.
    where : str
        The setting, and the family of the worst pair.
    sampled : float
        A lower bound from outputs alone, in the first setting.
    buys : str
        What is released: ``"coefficients"``, ``"scale"`` (with coefficients), ``"inference"`` (with
        moments) or ``"choices"``.
    share : float
        NaN for a release of coefficients alone. For coefficients and another stage, `exact` is the
        sum of what both lose; `attained` is the share of their own claim that the coefficients
        reached, and `share` is the one that the other stage reached. The ledger composes the parts,
        so each must be within its claim.
    failure : str
        The reason why there are no numbers; empty if there are numbers.

    Examples
    --------
    >>> from privatelr.audit import Row
    >>> row = Row("objective", "logistic", "epsilon = 1", 1.0, 0.99, 0.99, "R 1", 0.4)
    >>> row.exact <= row.claimed
    True
    """

    placement: str
    loss: str
    claim: str
    claimed: float
    exact: float
    attained: float
    where: str
    sampled: float = math.nan
    buys: str = "coefficients"
    share: float = math.nan
    failure: str = ""

    @property
    def ratio(self) -> float:
        """``exact / claimed``."""
        return self.exact / self.claimed

    @property
    def verdict(self) -> str:
        """``"ok"``, ``"VIOLATION"``, or the reason why there was no audit."""
        if self.failure:
            return self.failure
        holds = all(share <= 1 + _SLACK for share in (self.ratio, *self._shares))
        return OK if holds and not self.sampled > self.claimed else VIOLATION

    @property
    def holds(self) -> bool:
        """Whether the verdict is ``"ok"``."""
        return self.verdict == OK

    @property
    def title(self) -> str:
        """The mechanism, the loss and the claim, in words."""
        return f"{self.placement}, {self.loss}, {self.claim}{_ALSO.get(self.buys, '')}"

    @property
    def _shares(self) -> tuple[float, ...]:
        """The shares of their own claims that the coefficients and another stage reached."""
        return (self.attained, self.share) if self.buys in _ALSO else ()

    def line(self, wide: int = 14) -> str:
        """The row as a line of the table, in which the loss has `wide` characters."""
        numbers = ["-"] * 4
        if not self.failure:
            share = (self.attained, *self._shares)[-1]
            sampled = "-" if math.isnan(self.sampled) else f"{self.sampled:.3g}"
            numbers = [f"{self.exact:.3g}", f"{self.ratio:.4f}", f"{share:.4f}", sampled]
        words = (self.placement, self.loss, self.claim)
        return _LINE.format(*words, *numbers, self.verdict, wide=wide)

    __str__ = line


def row_or_failure(
    placement: str,
    loss: str,
    claim: Guarantee,
    make: Callable[..., Row],
    *given: Any,
    buys: str,
) -> Row:
    """Return the row that `make` returns, or a row whose verdict is the error that it raises."""
    try:
        return make(*given)
    except Exception as failure:
        numbers, why = (claimed_number(claim), math.nan, math.nan), could_not(failure)
        return Row(placement, loss, short(claim), *numbers, "", buys=buys, failure=why)


@dataclass(frozen=True, slots=True)
class Audit:
    """The findings of an audit, which print as a table."""

    rows: tuple[Row, ...]
    checks: tuple[Check, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every row and every check holds."""
        found: list[Row | Check] = [*self.rows, *self.checks]
        return all(each.holds for each in found)

    def to_json(self) -> str:
        """Rows and checks as a JSON list; NaN becomes null, and infinity becomes ``"inf"``."""
        records = [{**asdict(row), "ratio": row.ratio, "verdict": row.verdict} for row in self.rows]
        records += [{**asdict(check), "verdict": check.verdict} for check in self.checks]
        for record in records:
            for key, value in record.items():
                if isinstance(value, float) and not math.isfinite(value):
                    record[key] = None if math.isnan(value) else str(value)
        return json.dumps(records, indent=1, allow_nan=False)

    def plot(self, path: str | Path) -> None:
        """Draw the privacy loss over the claim of each row, and save the picture.

        Parameters
        ----------
        path : str or Path
            Its suffix is .pdf, .png or .svg.

        Raises
        ------
        ArgumentError, MissingDependencyError
            In the same cases as `require_plot`.
        """
        target = require_plot(path)
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 1.5 + 0.28 * len(self.rows)), layout="constrained")
        FigureCanvasAgg(figure)
        self.draw(ax=figure.subplots())
        drawn = io.BytesIO()
        figure.savefig(drawn, format=target.suffix[1:].lower(), dpi=150)
        replace_file(target, drawn.getvalue())  # in one step, so that an interrupt leaves no half

    def draw(self, *, ax: Any = None) -> Axes:
        """Draw the picture of `plot` on axes, by default those of a new figure of pyplot."""
        rows = self.rows
        axes = axes_for("draw", (9.0, 1.5 + 0.28 * len(rows)), ax)
        heights = range(len(rows), 0, -1)
        axes.axvline(1.0, color=ink_of(axes), linewidth=1.0)
        edge = max([1.15, *(1.05 * row.ratio for row in rows if math.isfinite(row.ratio))])
        for height, row in zip(heights, rows, strict=True):
            colour = MAIN if row.holds else BROKEN
            fits = math.isfinite(row.ratio)
            found = row.ratio if fits else edge
            axes.plot([0, found], [height, height], color=QUIET, linewidth=0.8, zorder=1)
            marker = "o" if fits else ">"
            axes.plot(found, height, marker, color=colour, markersize=6, zorder=3, clip_on=False)
            if not fits:  # the ratio is infinite or NaN, so it is written beside the axis
                beside: dict[str, Any] = {"xytext": (8, 0), "textcoords": "offset points"}
                axes.annotate(
                    f"{row.ratio:g}", (found, height), va="center", color=colour, **beside
                )
            sampled = row.sampled / row.claimed
            axes.plot(sampled, height, "o", mfc=ground_of(axes), mec=colour, markersize=5, zorder=2)
        axes.plot([], [], "o", color=MAIN, label="exact, from densities")
        axes.plot([], [], "o", mfc=ground_of(axes), mec=MAIN, label="sampled, from outputs alone")
        titles = [
            f"{row.placement}, {row.loss}{_ALSO.get(row.buys, '')}: {row.claim}" for row in rows
        ]
        axes.set_yticks(list(heights), list(map(literal, titles)))
        axes.set_ylim(0.4, len(rows) + 0.6)
        axes.set_xlim(0, edge)
        axes.set_xlabel("privacy loss over claim (right of the line: violation)")
        add_legend(axes, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        return axes

    def __str__(self) -> str:
        lines, legends = [], ["coefficients"] if self.rows else []
        for buys, share in _SHARES.items():
            rows = [row for row in self.rows if row.buys == buys]
            wide = max([14, *(len(row.loss) + 1 for row in rows)])
            found = ("exact", "of claim", share, "sampled", "verdict")
            head = _LINE.format("mechanism", "loss", f"claim for {buys}", *found, wide=wide)
            lines += ruled(head, [row.line(wide) for row in rows])
            legends += [buys] if rows and buys != "coefficients" else []
        marked = any(row.claim.endswith(LAPLACE_MARK) for row in self.rows)
        legends += [LAPLACE_MARK] if marked else []
        return "\n".join([*lines, *table_of(self.checks), *(_LEGENDS[due] for due in legends)])
