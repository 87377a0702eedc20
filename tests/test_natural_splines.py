"""``ns()`` and ``cr()``, and splines beyond their boundary: values, proven ranges, plots."""

from __future__ import annotations

from pathlib import Path

import formulaic
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from test_partitions import DECLARED, FRAME, log_loss

import privatelr
from privatelr import dplr, dpsvm, plan
from privatelr.call_data import read_data
from privatelr.design import partitions
from privatelr.design.partitions import Partition
from privatelr.errors import FormulaError, PrivateLRError
from privatelr.numerics.rows import SparseRows
from privatelr.results.predict import design_rows
from privatelr.sources import as_batch, declare_schema

NS = "ns(age, knots = c(35, 50, 65))"
CR = "cr(age, knots = [35, 50, 65])"


def reference() -> dict[str, np.ndarray]:
    """What ``tests/reference/splines.R`` printed, by the call in R."""
    text = (Path(__file__).parent / "reference" / "splines.txt").read_text(encoding="utf-8")
    parts = (part.split("\n", 1) for part in text.split("# ")[1:])
    return {call.strip(): np.loadtxt(lines.splitlines(), ndmin=2) for call, lines in parts}


REFERENCE = reference()
X = REFERENCE.pop("x").ravel()


def columns_of(formula: str, values: np.ndarray = X, bounds: tuple = (18, 90), **more: object):
    """The plan, and the covariates that it makes of values of age."""
    frame = pd.DataFrame(
        {"age": values, "z": np.linspace(-1, 1, len(values)), "g": "b", "y": False}
    )
    data = read_data(formula, frame, None)
    declared = {"bounds": {"age": bounds, "z": (-1, 1)}, "levels": {"g": ["a", "b"]}, **more}
    spec = data.plan(declare_schema(**declared))
    rows = data.rows(spec, bar=False)[0]
    table = rows.x.toarray() if isinstance(rows, SparseRows) else rows.x
    return spec, table[:, int(spec.columns.has_intercept) :]


# --- values ---------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize("call", REFERENCE)
def test_columns_are_those_of_r_also_beyond_the_boundary(call: str) -> None:
    """With an intercept R has what a model without one has here, in which no column is left out."""
    term = call.replace("(x", "(age").replace(", intercept = TRUE", "")
    start = "0 + " if "intercept" in call else ""
    # R's polynomials grow so fast that bs() is compared next to its boundary
    bounds, near = ((18, 82), X <= 80) if call.startswith("bs") else ((18, 90), X > 0)
    spec, found = columns_of(f"y ~ {start}{term}", bounds=bounds)
    assert found.shape == REFERENCE[call].shape
    assert np.abs(found - REFERENCE[call])[near].max() < 1e-10
    first = 0 if start else 1
    assert spec.columns.names[-found.shape[1]] == f"{term}[{first}]"


@pytest.mark.quick
@pytest.mark.parametrize(
    "call",
    [
        "cr(age, knots=[35, 50, 65], lower_bound=20, upper_bound=80)",
        "cr(age, knots=[50], lower_bound=10, upper_bound=95)",
        "cr(age, knots=[35, 50, 65], lower_bound=20, upper_bound=80, extrapolation='clip')",
        "bs(age, knots=[35, 50], lower_bound=20, upper_bound=80, extrapolation='clip')",
        "bs(age, knots=[35, 50], lower_bound=20, upper_bound=83, extrapolation='extend')",
    ],
)
def test_columns_are_those_of_formulaic(call: str) -> None:
    values = np.clip(X, 18, 85)
    theirs = np.asarray(formulaic.model_matrix(f"0 + {call}", pd.DataFrame({"age": values})))
    full = "0 + " if call.startswith("cr") else ""
    assert np.abs(columns_of(f"y ~ {full}{call}", values, (18, 85))[1] - theirs).max() < 1e-10
    if call.startswith("cr"):  # with an intercept the first one is a sum of the others
        spec, found = columns_of(f"y ~ {call}", values, (18, 85))
        assert np.abs(found - theirs[:, 1:]).max() < 1e-10
        assert spec.columns.names[1].endswith("[2]")


# --- proven ranges --------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    "term",
    [NS, CR, "ns(age)", "cr(age)", "ns(age, knots = c(21, 22, 79))"]
    + [f"{name}(age, knots = c(40, 60), Boundary.knots = c(30, 70))" for name in ("ns", "cr")]
    + ["bs(age, knots = c(40, 60), Boundary.knots = c(22, 77))", "cr(age):z", "ns(age) * g"],
)
@pytest.mark.parametrize("intercept", ["", "0 + "])
def test_no_row_is_beyond_the_proven_range(term: str, intercept: str, monkeypatch) -> None:
    """No row is shortened: what the convex hull allows is not reached, let alone passed."""
    values = np.linspace(20, 80, 4001)
    spec, found = columns_of(f"y ~ {intercept}{term}", values, (20, 80))
    start = int(spec.columns.has_intercept)
    for column, block in zip(spec.columns.terms, spec.blocks, strict=True):
        here = found[:, column.start - start : column.stop - start]
        if column.label == "(Intercept)":
            continue
        sums = np.abs(here).sum(axis=1)
        assert sums.max() <= block.bound
        assert np.linalg.norm(here, axis=1).max() <= column.radius + 1e-12
        assert np.abs(here).max() <= column.largest + 1e-12

    # the test sees a bound that is too small: rows are held to it
    honest = Partition.coding
    monkeypatch.setattr(
        Partition, "coding", lambda self, *, contrasted: 0.2 * honest(self, contrasted=contrasted)
    )
    assert columns_of(f"y ~ {intercept}{term}", values, (20, 80))[0].radius < spec.radius


@pytest.mark.quick
def test_values_beyond_declared_bounds_count_as_the_bounds() -> None:
    near, far = (columns_of(f"y ~ {NS}", np.array(x), (20, 80))[1] for x in ([20, 80], [-9, 900]))
    assert np.array_equal(near, far)


def test_a_wrong_sum_of_b_splines_is_held_to_the_planned_range(monkeypatch) -> None:
    """What guards the rows does not trust the proof: twice the shares give no longer rows."""
    values = np.linspace(20, 80, 200)
    spec, _ = columns_of(f"y ~ {NS}", values, (20, 80))
    honest = partitions.b_splines

    def doubled(x: np.ndarray, knots: np.ndarray, degree: int):
        first, shares = honest(x, knots, degree)
        return first, 2 * shares if len(x) == len(values) else shares

    monkeypatch.setattr(partitions, "b_splines", doubled)
    other, found = columns_of(f"y ~ {NS}", values, (20, 80))
    assert other.blocks == spec.blocks
    assert np.abs(found).sum(axis=1).max() <= spec.blocks[1].bound


# --- fits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("term", [NS, CR])
@pytest.mark.parametrize("do_scale", [False, "private"])
@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}, {"spend": "inference"}])
def test_a_private_fit_is_near_the_plain_one(term, do_scale, options, tmp_path) -> None:
    asked = {"eps": 300.0, "do_scale": do_scale, **DECLARED, **options}
    fit = dplr(f"y ~ {term} + g + z", FRAME, **asked)
    plain = dplr(f"y ~ {term} + g + z", FRAME, 0, 1e-9, **DECLARED)
    assert log_loss(fit, FRAME) < log_loss(plain, FRAME) + 0.01
    fit.save(tmp_path / "fit.json")
    again = privatelr.load(tmp_path / "fit.json")
    assert np.array_equal(again.predict(FRAME), fit.predict(FRAME))
    assert again.spec.factors == fit.spec.factors
    assert again.calibration == fit.calibration


def test_wide_designs_and_other_models_take_them() -> None:
    frame = FRAME.assign(f=pd.Categorical([f"f{i % 150}" for i in range(len(FRAME))]))
    wide, narrow = (read_data(f"y ~ {f}{NS} + {CR}:z", frame, None) for f in ("f + ", ""))
    tables = []
    for data in (wide, narrow):
        spec = data.plan(declare_schema(**DECLARED))
        tables.append(data.rows(spec, bar=False)[0])
    assert isinstance(tables[0], SparseRows)
    ours = tables[0].x.toarray()
    assert np.allclose(ours[:, [0, *range(150, 159)]], tables[1].x, atol=1e-12)
    assert dpsvm(f"y ~ {CR}", FRAME, 1.0, **DECLARED).coef.notna().all()
    assert privatelr.dpsimplex(f"y ~ {NS}", FRAME, eps=1.0, **DECLARED).coef.notna().all()
    outlook = plan(f"y ~ {NS} + g", len(FRAME), 1.0, **DECLARED)
    assert np.isfinite(outlook.errors.privacy_sd).all()


@pytest.mark.parametrize(
    "terms",
    [
        "ns(age, knots = c(40, 60)) * g + z",
        "bs(age, knots = c(40, 60)) + g + z",
        "cr(age, knots = [40, 60]):z + g",
        "cut(age, c(20, 40, 60, 80), include.lowest = TRUE) * z",
        'g %in% c("b") + ifelse(age > 50, z, 0) + poly(z, 2, raw = TRUE)',
    ],
)
def test_beside_weights_and_an_offset_a_plain_fit_is_that_of_statsmodels(terms: str) -> None:
    rng = np.random.default_rng(4)
    n = len(FRAME)
    frame = FRAME.assign(**{"w.t": rng.uniform(0.5, 4, n), "t": rng.uniform(0.5, 3, n)})
    declared = {**DECLARED, "bounds": {**DECLARED["bounds"], "w.t": (0.5, 4), "t": (0.5, 3)}}
    formula = f"y ~ {terms} + offset(log(t))"
    fit = dplr(formula, frame, 0, 1e-11, weights="w.t", **declared)
    rows = np.asarray(design_rows(fit, as_batch(frame))[0])
    asked = {"freq_weights": frame["w.t"], "offset": np.log(frame["t"])}
    model = sm.GLM(frame["y"], rows, family=sm.families.Binomial(), **asked)
    theirs = fit.spec.user_map() @ model.fit(tol=1e-13, maxiter=300).params.to_numpy()
    assert np.abs(fit.coef.to_numpy() - theirs).max() < 1e-5


# --- membership as a term -------------------------------------------------------------------


@pytest.mark.quick
def test_membership_among_constants_is_a_term() -> None:
    frame = FRAME.assign(race=pd.Categorical.from_codes(np.arange(len(FRAME)) % 3, list("bwo")))
    fits = [
        dplr(f"y ~ z + {term}", frame, 0, 1e-6, **DECLARED).coef
        for term in ('race %in% c("b", "w")', 'I(race %in% c("b", "w"))', "race %in% ['b', 'w']")
    ]
    for other in fits[1:]:
        assert np.allclose(fits[0], other, atol=1e-9)
    one, text = (
        dplr(f"y ~ z + {term}", frame, 0, 1e-6, **DECLARED).coef
        for term in ("race %in% c('b')", "race %in% 'b'")
    )
    assert np.allclose(one, text, atol=1e-9)
    assert list(text.index)[-1].startswith("race %in% 'b'")
    dplr("y ~ race %in% 'b' * z", frame, 0, 1e-6, **DECLARED)
    both = dplr('y ~ race %in% c("b", "w") * z', frame, 0, 1e-6, **DECLARED)
    assert len(both.coef) == 4
    for wrong in (
        "race %in% c('b'):z",
        "z:race %in% c('b')",
        "race %in% 'b':z",
        "race %in% z",
        "race %in% c(z)",
    ):
        with pytest.raises(FormulaError):
            dplr(f"y ~ {wrong}", frame, 1.0, **DECLARED)


# --- refusals -------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    ("term", "words"),
    [
        ("ns(age, df = 4)", "write public ones, as in knots = c(35, 50, 65)"),
        ("cr(age, df = 4)", "write public ones, as in knots = c(40, 60)"),
        ("ns(age, knots = quantile(age))", "public numbers"),
        ("ns(age, knots = c(10, 40))", "and not on it: 10, 40"),
        ("ns(age, degree = 2)", "no degree"),
        ("cr(age, constraints = 'center')", "no constraints"),
        ("cr(age, extrapolation = 'zero')", "'extend' or 'clip'"),
        ("ns(age, Boundary.knots = c(49, 51))", "bounds= nearer to its boundary (49, 51)"),
        ("bs(age, Boundary.knots = c(49, 51))", "take ns()"),
        ("ns(g)", "divides numbers"),
        ("ns(w)", "declared bounds"),
        ("cc(age, 4)", "no proven range"),
        ("ns(age, Boundary.knots = c(1, 2, 3))", "two numbers"),
    ],
)
def test_what_has_no_public_knots_or_no_range_is_refused(term: str, words: str) -> None:
    with pytest.raises(PrivateLRError) as caught:
        dplr(f"y ~ {term}", FRAME.assign(w=1.0), 1.0, **DECLARED)
    assert words in str(caught.value)
