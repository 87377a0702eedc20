"""Data frames of a fit: coefficients, errors, intervals, tests of combinations, and scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import scipy

from privatelr import inference
from privatelr.design import INTERCEPT, DesignSpec
from privatelr.errors import ArgumentError, count_of, require_choice, require_flag
from privatelr.inference import (
    BOOTSTRAP,
    Inference,
    JointTest,
    Question,
    answerable,
)
from privatelr.inference.question import USUAL
from privatelr.mechanisms import Release, ScaleRelease, scale_map, scale_moments
from privatelr.mechanisms.stages.scale import ScaleCalibration
from privatelr.privacy import NonPrivate, PureDP, prices
from privatelr.results.equations import read_hypotheses, vocabulary_of
from privatelr.results.fit_record import FitRecord, ModelRecord, NoisyRecord, row_lengths_of
from privatelr.results.odds_ratios import require_odds
from privatelr.types import FloatArray

# -- inference ---------------------------------------------------------------------------------


def noise_at(fit: NoisyRecord, places: list[int]) -> tuple[FloatArray, FloatArray]:
    """`privacy_sd_expected` and `privacy_sd_limit` of the coefficients at these positions."""
    units = scipy.sparse.csr_array(fit.spec.user_map())[places]
    limit = fit.calibration.coefficient_sd * row_lengths_of(units)
    if fit.calibration.placement == "output" or fit.calibration.noise.scale == 0:
        return limit, limit
    found = inference.expected_noise(fit.release, fit.spec)
    return np.full(len(places), np.nan) if found is None else found[places], limit


def infer_coefficients(fit: FitRecord, asked: Question = USUAL) -> Inference:
    """Inference on all coefficients in the user's units; the result is cached."""
    if asked.method == BOOTSTRAP:
        return infer_rows(fit, fit.spec.user_rows(), asked)
    return _inferred(fit.release, fit.spec, answerable(fit.release, asked))


@lru_cache(maxsize=32)
def _inferred(release: Release, spec: DesignSpec, asked: Question) -> Inference:
    rows = inference.coefficient_rows(release, spec.user_rows(), asked)
    return inference.infer(release, rows, asked)


def rows_of(fit: FitRecord, asked: Question) -> FloatArray:
    """The rows of coefficients; see `privatelr.inference.coefficient_rows`."""
    if asked.method == BOOTSTRAP:
        return fit.spec.user_rows()
    return inference.coefficient_rows(fit.release, fit.spec.user_rows(), asked)


def infer_rows(
    fit: FitRecord, rows: FloatArray, asked: Question, null: FloatArray | None = None
) -> Inference:
    """Inference on combinations ``(m, d)`` of the design coefficients."""
    if asked.method == BOOTSTRAP:
        return inference.bootstrap_intervals(fit.release, fit.spec, rows, asked, null)
    return inference.infer(fit.release, rows, asked, null)


def error_columns(found: Inference, log: str = "") -> dict[str, FloatArray]:
    """The columns of a frame about errors and tests, NaN where no normal law describes them."""
    return {
        f"std_error{log}": found.std_error,
        f"sampling_sd{log}": found.sampling_sd,
        f"privacy_sd{log}": found.privacy_sd,
        f"unknown_sd{log}": found.if_normal(found.unknown_sd),
        "statistic": found.z,
        "p_value": found.p_value,
    }


def intervals(fit: FitRecord, asked: Question, *, in_percent: bool = False) -> pd.DataFrame:
    """Intervals of the coefficients, in columns 0 and 1 or, as in R, ``2.5 %`` and ``97.5 %``."""
    found, names = infer_coefficients(fit, asked), list(fit.spec.columns.names)
    miss = 50 * (1 - found.level)
    ends = [f"{miss:.6g} %", f"{100 - miss:.6g} %"] if in_percent else [0, 1]
    table = pd.DataFrame(np.column_stack([found.lower, found.upper]), index=names, columns=ends)
    table.attrs |= {"mode": found.mode, "target": found.target}
    return table


def covariances(fit: FitRecord, asked: Question) -> pd.DataFrame:
    """Covariance of the coefficients in the user's units; see `Fit.vcov`."""
    asked = answerable(fit.release, asked)
    units = rows_of(fit, asked)
    averaged = "posterior" if asked.mode == "conservative" else asked.mode
    released = inference.covariance(fit.release, Question(mode=averaged, target=asked.target))
    found = units @ released @ units.T
    with np.errstate(all="ignore"):  # the correlations of the mean, with the standard errors
        ratio = infer_coefficients(fit, asked).std_error / np.sqrt(np.diag(found))
    found = found * np.outer(ratio, ratio)
    names = list(fit.spec.columns.names)
    return pd.DataFrame(found, index=names, columns=names)


# -- broom's verbs -----------------------------------------------------------------------------


def tidy(fit: FitRecord, asked: Question, *, conf_int: Any, exponentiate: Any) -> pd.DataFrame:
    """One row per coefficient; see `Fit.tidy`."""
    for name, value in (("conf_int", conf_int), ("exponentiate", exponentiate)):
        require_flag(name, value)
    if exponentiate:
        require_odds(fit, "exponentiate=True")
    log = "_log" if exponentiate else ""
    table = pd.DataFrame({"term": list(fit.spec.columns.names)})
    if not fit.has_inference and not conf_int and asked.is_usual:
        table["estimate"] = fit.coef.to_numpy()
        table[f"privacy_sd_expected{log}"] = fit.privacy_sd_expected.to_numpy()
        table[f"privacy_sd_limit{log}"] = fit.privacy_sd_limit.to_numpy()
    else:
        found = infer_coefficients(fit, asked)
        table = table.assign(estimate=found.estimate, **error_columns(found, log))
        table.attrs |= {"mode": found.mode, "target": found.target}
        if conf_int:
            table["conf_low"], table["conf_high"] = found.lower, found.upper
    if exponentiate:
        ends = [name for name in ("estimate", "conf_low", "conf_high") if name in table]
        with np.errstate(over="ignore"):
            table[ends] = np.exp(table[ends])
    return table


def glance(fit: ModelRecord) -> pd.DataFrame:
    """One row about the fit: its sizes, its guarantee in words and in numbers, its mechanism."""
    guarantee, problem = fit.guarantee, fit.release.calibration.problem
    price = prices(guarantee)
    numbers = {name: price.get(name, np.nan) for name in ("epsilon", "delta", "rho")}
    if isinstance(guarantee, PureDP):
        numbers["delta"] = 0.0
    if isinstance(guarantee, NonPrivate):
        numbers["epsilon"] = np.inf
    own = fit.kind.glance(fit)
    n = np.nan if fit.spec.formula.by else problem.n  # the size of a stratum is private
    sizes = {"nobs": n, "d": problem.d, "guarantee": str(guarantee)}
    return pd.DataFrame([{**sizes, **numbers, **own}])


def glance_of_noise(fit: NoisyRecord) -> dict[str, object]:
    """Entries of `glance` about noise and inference."""
    calibration, noise, problem = fit.calibration, fit.calibration.noise, fit.calibration.problem
    known = inference.quality(fit.release) if fit.has_inference else None
    return {
        "mechanism": f"{calibration.placement} perturbation" if noise.scale else "none",
        "analysis": calibration.analysis,
        "noise": noise.title,
        "noise_scale": noise.scale,
        "lambda": calibration.lambda_,
        "radius": problem.radius,
        "loss": problem.loss.name,
        **problem.loss.parameters,
        "inference": None if known is None else known.mode,
        "target": None if known is None else known.target,
        "noise_to_signal": np.nan if known is None else known.noise_to_signal,
        "relative_bias": np.nan if known is None else known.relative_bias,
    }


_SHOWN = 10
"""A sentence lists at most this number of equations."""


@dataclass(frozen=True, slots=True, repr=False)
class EquationTest(JointTest):
    """A test of one equation about the coefficients, or of several together.

    Attributes
    ----------
    title : str
        Wald's test, or that of a deviance: of a model against a smaller one, in which the
        equations hold.
    equations : tuple of str
    statistic : float
        Wald's quadratic form in the released estimates, or a quadratic approximation of the
        deviance difference at the released curvature, which is not a likelihood ratio, since the
        likelihood is not released. NaN where estimates are shrunk.
    df : int
        The number of equations.
    p_value : float
        It is computed from the law of the statistic under sampling error and noise, which is not a
        chi-square. If it is simulated it is at least 5e-5. NaN where the default target has no
        tests; see `Fit`.
    critical : float
        The statistic beyond which the p-value is below .05; NaN where there is none.
    mode, target : str
        The mode and the target of the test, as in `Fit`. For the penalised target a deviance
        counts the penalty.
    """

    title: str
    equations: tuple[str, ...]

    @property
    def pvalue(self) -> float:
        """The same as `p_value`, by statsmodels' name."""
        return self.p_value

    def __repr__(self) -> str:
        more = len(self.equations) - _SHOWN
        asked = ", ".join(self.equations[:_SHOWN])
        asked += f" and {more} more" if more > 0 else ""
        chance = "p-value below 0.0001" if self.p_value < 1e-4 else f"p-value {self.p_value:.4g}"
        if np.isnan(self.p_value):
            why = "where the noise hides a column"
            if self.target == "penalised":
                why = "of shrunk estimates"
            chance = f"no p-value {why} unless target={self.target!r} asks for it"
        how = f", {self.df} times the smallest of the single equations"  # not of the statistic
        bounded = self.mode == "conservative" and self.df > 1
        beyond = f" (critical value at 5%: {self.critical:.4g})"
        numbers = f"statistic {self.statistic:.4g} on {count_of(self.df, 'degree')} of freedom"
        numbers += f"{'' if np.isnan(self.critical) else beyond}, "
        return (
            f"{self.title} of {asked}: {'' if np.isnan(self.statistic) else numbers}"
            f"{chance}{how if bounded else ''} "
            f"({self.mode} mode, {self.target} coefficients)"
        )


def tested(
    fit: FitRecord,
    hypotheses: Any,
    test: Callable[..., JointTest],
    title: str,
    *,
    mode: Any,
    target: Any,
) -> EquationTest:
    """Test equations together; see `Fit.wald_test` and `Fit.deviance_test`."""
    asked = read_hypotheses(hypotheses, vocabulary_of(fit.spec.columns))
    rows = asked.contrasts @ rows_of(fit, Question(mode=mode, target=target))
    found = test(fit.release, rows, asked.values, mode=mode, target=target)
    equations = tuple(
        label if "=" in label else f"{label} = {value:g}"
        for label, value in zip(asked.labels, asked.values, strict=True)
    )
    return EquationTest(**asdict(found), title=title, equations=equations)


def contrasts(fit: FitRecord, hypotheses: Any, question: Question) -> pd.DataFrame:
    """Estimates, errors, tests and intervals of combinations; see `Fit.contrasts`."""
    asked = read_hypotheses(hypotheses, vocabulary_of(fit.spec.columns))
    found = infer_rows(fit, asked.contrasts @ rows_of(fit, question), question, asked.values)
    table = pd.DataFrame(
        {
            "estimate": found.estimate,
            "null_value": asked.values,
            **error_columns(found),
            "conf_low": found.lower,
            "conf_high": found.upper,
        },
        index=list(asked.labels),
    )
    table.attrs |= {"mode": found.mode, "target": found.target}
    return table


# -- tests of nested models ----------------------------------------------------------------------

_TESTS = ("deviance", "wald")


def anova(fit: FitRecord, *, test: Any, mode: Any, target: Any) -> pd.DataFrame:
    """Test each term given all others; see `Fit.anova`."""
    inference.require_moments(fit.release)
    require_choice(ArgumentError, "test", test, _TESTS)
    question = Question(mode=mode, target=target)
    rows = rows_of(fit, question)
    equations = inference.Equations(fit.release, rows, np.zeros(len(rows)), question)
    found = {label: equations.tested(at, test) for label, at in terms_of(fit).items()}
    numbers = {"df": int, "statistic": float, "critical_5%": float, "p_value": float}
    table = pd.DataFrame(
        [[one.df, one.statistic, one.critical, one.p_value] for one in found.values()],
        index=pd.Index(list(found), name="term"),
        columns=list(numbers),
    ).astype(numbers)
    known = next(iter(found.values()), None)
    if known is not None:
        table.attrs |= {"mode": known.mode, "target": known.target}
    return table


def terms_of(fit: FitRecord) -> dict[str, list[int]]:
    """The positions of the coefficients of each term, without the intercept."""
    columns = fit.spec.columns
    if fit.spec.has_names:
        kept = (term for term in columns.terms if term.columns and term.label != INTERCEPT)
        return {term.label: list(term.columns) for term in kept}
    return {name: [place] for place, name in enumerate(columns.names) if place > 0}


# -- the released scale of columns ---------------------------------------------------------------

SURE = 0.95
"""The probability with which an interval has the standard deviation of the records."""


def scale_table(fit: NoisyRecord) -> pd.DataFrame:
    """The released means and standard deviations of columns, in the units of the data.

    ``attrs["length"]`` is the released length of rows, in lengths of a typical one.

    They are over all n records; one that could not be used counts as the middle of the bounds of
    every column, and as none of the levels. A product of a number with levels counts from the
    number's middle in its own units, so that the share of these levels has to be added; without
    that share nothing is known of it.
    """
    release, columns = fit.release.scale, fit.spec.columns
    assert release is not None
    here = np.array(release.calibration.means)
    centre, factor = scale_map(release, fit.release.length)
    mean, variance = scale_moments(release)
    first = int(columns.has_intercept)
    places = here + first
    units = (columns.scale[places] * factor[here]).astype(float)
    middle = columns.centre[places] - units * centre[here]
    means, spread, sd = units * mean[here], units**2 * variance[here], release.calibration.mean_sd
    known = np.where(np.isin(here, release.ranged[0]), np.nan, 1.0)  # the law of a range is another
    noise = known * units * sd
    low, high = (known * units**2 * end[here] for end in variance_ends(release))
    for row, place in enumerate(places):
        parent = columns.parent[place] - first
        if middle[row] == 0 or parent < 0:  # it counts from zero, or from a constant
            means[row] += middle[row]
        elif parent in release.calibration.facts.columns_of("indicators"):
            share, off = mean[parent], middle[row]  # the column is 0 where the indicator is
            spread[row] += off * (1 - share) * (off * share + 2 * means[row])
            low[row], high[row] = _ends_from(release, here[row], share, off, units[row])
            means[row], noise[row] = means[row] + off * share, np.hypot(noise[row], off * sd)
        else:
            means[row] = spread[row] = noise[row] = low[row] = high[row] = np.nan
    # noise may have taken a variance below 0, and rounding an end past it
    found = np.sqrt(np.maximum([spread, low, np.maximum(high, spread)], 0.0))
    table = dict(zip(["sd", "sd_lower", "sd_upper"], found, strict=True))
    index = pd.Index([columns.names[place] for place in places], name="column")
    frame = pd.DataFrame({"mean": means, "noise_sd": noise, **table}, index=index)
    frame.attrs["length"] = fit.release.length
    return frame


def variance_ends(release: ScaleRelease) -> tuple[FloatArray, FloatArray]:
    """Return ends ``(p,)`` between which the variances of covariates lie, each with `SURE`.

    A variance is a function of a mean and a mean square, and the noise on both keeps within
    `noise_reach` together. The variance of an indicator is one of its mean alone. It holds for all
    data, also where a variance is next to 0, where its own error is not normal.
    """
    calibration, facts = release.calibration, release.calibration.facts
    largest = np.repeat([g.largest for g in facts.groups], [g.size for g in facts.groups])
    mean, variance = scale_moments(release)
    square = scale_moments(release, np.zeros(facts.p))[1]
    of_mean, of_square = noise_reach(calibration, 2)
    least, most = np.maximum(np.abs(mean) - of_mean, 0.0), np.abs(mean) + of_mean
    low = square - of_square - np.minimum(most, largest) ** 2
    high = variance + of_square + mean**2 - least**2
    levels, of_share = facts.columns_of("indicators"), noise_reach(calibration, 1)[0]
    left, right = (np.clip(mean[levels] + side * of_share, 0.0, 1.0) for side in (-1, 1))
    low[levels] = np.minimum(left * (1 - left), right * (1 - right))
    near = np.clip(0.5, left, right)  # a variance p (1 - p) is largest at the p next to a half
    high[levels] = near * (1 - near)
    return np.clip(low, 0.0, None), np.minimum(high, largest**2)


def _ends_from(
    release: ScaleRelease, column: int, share: float, off: float, unit: float
) -> tuple[float, float]:
    """Return ends of the variance of ``off * indicator + unit * column``.

    The column is 0 where the indicator is, whose `share` is released beside its two moments.
    """
    zeros = np.zeros(release.calibration.facts.p)
    mean, square = (found[column] for found in scale_moments(release, zeros))
    of_mean, of_square = noise_reach(release.calibration, 3)
    middle = abs(off * share + unit * mean)
    moved = (abs(off) + abs(unit)) * of_mean
    found = off**2 * share + 2 * off * unit * mean + unit**2 * square
    of_found = (off**2 + 2 * abs(off * unit)) * of_mean + unit**2 * of_square
    low = found - of_found - (middle + moved) ** 2
    high = max(found - middle**2, 0.0) + of_found + middle**2 - max(middle - moved, 0.0) ** 2
    return max(low, 0.0), high


@lru_cache(maxsize=64)
def noise_reach(calibration: ScaleCalibration, count: int) -> tuple[float, float]:
    """Return how far noise moves means and mean squares, `count` of them together, with `SURE`."""
    # a released number is rounded to the grid
    first, last = (end + calibration.grid for end in calibration.noise.reach(count, SURE))
    return first, last / calibration.weight
