"""Widths that `privatelr.plan` forecasts from public arguments, beside fits to published tables.

See `planning`. A plan knows the formula, n, the promise, bounds and levels, which are those of
`scale_tables`; nothing is guessed by hand. Records are drawn from the table with replacement.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privatelr import PrivacyWarning, dplr, plan
from privatelr.inference.guessed_columns import level_shares

from .scale_tables import TABLES, read_table
from .tables import data_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privatelr.types import FloatArray

SHORTEST, LONGEST = 0.7, 1.4
"""A forecast is good if the mean ratio of widths is between these."""


@dataclass(frozen=True, slots=True)
class Study:
    """Some columns of a table and an epsilon; all numeric columns where none are named.

    Attributes
    ----------
    """

    table: str
    epsilon: float
    columns: tuple[str, ...] = ()

    @property
    def public(self) -> dict[str, Mapping[str, object]]:
        """Bounds and levels of the columns."""
        known = TABLES[self.table]
        names = self.columns or tuple(known.bounds)
        bounds = {name: known.bounds[name] for name in names if name in known.bounds}
        levels = {name: known.levels[name] for name in names if name in known.levels}
        return {"bounds": bounds, "levels": levels}

    @property
    def formula(self) -> str:
        terms = (f"`{name}`" for part in self.public.values() for name in part)
        return f"{TABLES[self.table].response} ~ {' + '.join(terms)}"


JUDGED = ("adult", "bank", "titanic")
"""The exit status depends on these. The bounds of other small tables are tighter than a plan
assumes, so that it promises too much length; the columns of the last four tables are all but
collinear, or part the classes, which no plan assumes."""
_BREAST = ("mean radius", "mean texture", "mean smoothness", "mean symmetry")
_SPAM = ("V6", "V51", "V52", "V54", "V55", "V56")
_KDD = ("count", "srv_count", "serror_rate", "same_srv_rate", "dst_host_count")
STUDIES = (
    *(Study("adult", epsilon) for epsilon in (1, 4)),
    *(Study("adult", eps, ("age", "education_num", "hours_per_week", "sex")) for eps in (1, 4)),
    *(Study("bank", epsilon) for epsilon in (1, 4)),
    *(Study("bank", epsilon, ("V0", "V5", "V6")) for epsilon in (1, 4)),
    Study("bank", 4, ("V0", "V11", "V3", "V6")),
    Study("german", 8, ("V1", "V4", "V12")),
    Study("SAheart", 16, ("age", "ldl", "famhist")),
    Study("titanic", 8, ("Age", "Fare", "Sex")),
    Study("transfusion", 8),
    Study("cleveland", 16, ("V0", "V3", "V4", "V7")),
    Study("anes96", 8, ("age", "educ", "popul")),
    Study("breast_cancer", 16, _BREAST),
    Study("cod_rna", 4),
    Study("kddcup99", 4, _KDD),
    Study("spambase", 4, _SPAM),
)
"""Guesses and laws of `plan` were chosen by the tables from adult to anes96."""


def realised(study: Study, fits: int) -> tuple[list[str], FloatArray, Counter[str]]:
    """Terms, widths ``(fits, m)`` of the default intervals, and how often each mode came."""
    home = data_home()
    assert home is not None
    frame, rng = read_table(study.table, home), np.random.default_rng(1)
    widths, modes, terms = [], Counter[str](), list[str]()
    for run in range(fits):
        sample = frame.take(rng.integers(len(frame), size=len(frame))).reset_index(drop=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # of the seed
            fit = dplr(
                study.formula,
                sample,
                float(study.epsilon),
                spend="inference",
                seed=run,
                **study.public,
            )
        ends = fit.conf_int().to_numpy()
        widths.append(ends[:, 1] - ends[:, 0])
        modes[str(fit.glance()["inference"].iloc[0])] += 1
        terms = list(fit.coef.index)
    return terms, np.array(widths), modes


def line(study: Study, fits: int) -> tuple[str, float]:
    """A line of the table, and the mean log ratio of widths."""
    terms, widths, modes = realised(study, fits)
    home = data_home()
    assert home is not None
    n = len(read_table(study.table, home))
    made = plan(study.formula, n, float(study.epsilon), **study.public)
    found = made.to_frame().set_index("term").loc[terms]
    ratio = found["width"].to_numpy() / np.median(widths, axis=0)
    mean = float(np.log(ratio).mean())
    covered = float((widths <= found["pessimistic"].to_numpy()).mean())
    times = float(np.exp(np.log(found["pessimistic"] / found["width"]).mean()))
    shown = ", ".join(f"{mode} {count}" for mode, count in modes.most_common())
    text = (
        f"{study.table:<14}{n:>6}{len(terms):>4}{study.epsilon:>4g}{np.exp(mean):>7.2f}  "
        f"{ratio.min():>5.2f}-{ratio.max():<5.2f}{times:>7.1f}{covered:>6.0%}  {shown}"
    )
    return text, mean


def print_levels() -> int:
    """Print shares of levels in the published tables, by the number of levels, beside the guess.

    Shares are medians over factors, from the most common level to the rarest. `first` is the median
    rank of the first level, and `leads` the number of factors in which it is the most common.
    """
    home = data_home()
    assert home is not None
    shares: dict[int, list[FloatArray]] = {}
    for name, table in TABLES.items():
        frame = read_table(name, home) if table.levels else pd.DataFrame()
        for column, levels in table.levels.items():
            counted = frame[column].value_counts(normalize=True).reindex(levels).fillna(0.0)
            shares.setdefault(len(levels), []).append(counted.to_numpy())
    print(f"{'levels':>6}{'factors':>8}{'first':>6}{'leads':>6}  shares, guessed below")
    for count, found in sorted(shares.items()):
        ranks = np.array([1 + (each > each[0]).sum() for each in found])
        middle = np.median([np.sort(each)[::-1] for each in found], axis=0)
        head = f"{count:>6}{len(found):>8}{np.median(ranks):>6g}{(ranks == 1).sum():>6}  "
        print(head + " ".join(f"{share:.3f}" for share in middle))
        print(" " * len(head) + " ".join(f"{x:.3f}" for x in level_shares(count)))
    return 0


def compare(fits: int) -> int:
    """Print the table, and return the number of judged tables whose forecasts are off."""
    head = f"{'table':<14}{'n':>6}{'d':>4}{'eps':>4}{'width':>7}  {'range':<11}"
    print(f"{head}{'times':>7}{'below':>6}  modes of fits")
    found: dict[str, list[float]] = {}
    for study in STUDIES:
        text, mean = line(study, fits)
        found.setdefault(study.table, []).append(mean)
        print(text, flush=True)
    wrong = 0
    for name, means in found.items():
        ratio = float(np.exp(np.mean(means)))
        off = not SHORTEST <= ratio <= LONGEST
        wrong += off and name in JUDGED
        print(
            f"{name:<14}{ratio:>21.2f}{'' if not off else '  OFF' if name in JUDGED else '  off'}"
        )
    return wrong
