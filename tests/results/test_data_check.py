"""Counts of the training data: right, only where they are asked for, and never saved."""

import copy
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FORMULA, SCHEMA, clinic, fit_clinic
from scipy import sparse

from privatelr import (
    GuaranteeError,
    Ledger,
    SchemaError,
    check,
    dplpsvm,
    dplr,
    dpsimplex,
    dpsvm,
)
from privatelr.numerics import threads
from privatelr.numerics.rows import dense_rows as rows_module

LEVELS = ["a", "b", "c"]


def odd(n=400, seed=3):
    """A table with something odd of every kind in every column."""
    rng = np.random.default_rng(seed)
    plain = rng.normal(size=(n, 3))
    plain[rng.random((n, 3)) < 0.1] = np.nan
    plain[rng.random((n, 3)) < 0.05] = -np.inf
    objects = np.array(rng.normal(size=n), dtype=object)
    objects[::17], objects[5::31], objects[7::29] = None, "five", "0.5"
    texts = rng.choice([*LEVELS, "d", ""], n).astype(object)
    texts[::13], texts[4::37] = None, math.nan
    return pd.DataFrame(
        {
            "y": rng.choice([0.0, 1.0, 2.0, np.nan], n, p=[0.5, 0.4, 0.05, 0.05]),
            **{f"x{i}": plain[:, i] for i in range(3)},
            "short": rng.normal(size=n).astype(np.float32),
            "whole": pd.array(np.where(rng.random(n) < 0.9, 3, None), dtype="Int64"),
            "object": pd.Series(objects, dtype=object),
            "text": pd.Series(texts, dtype=object),
            "string": pd.array(texts, dtype="string"),
            "category": pd.Categorical(texts, categories=[*LEVELS, "d", ""]),
            "flag": pd.array(np.where(rng.random(n) < 0.9, True, None), dtype="boolean"),
        }
    )


NUMERIC = {"x0": (-1, 1), "x1": (-0.5, 2), "short": (-0.5, 0.5), "whole": (0, 2), "object": (0, 1)}
DECLARED = {
    "bounds": {**NUMERIC, "x2": (-9, 9)},
    "levels": {"y": [0, 1], **{name: LEVELS for name in ("text", "string", "category")}},
}


def number(value):
    try:
        found = float("nan") if value is None or value is pd.NA else float(value)
    except (TypeError, ValueError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def expected(frame, name, bounds, levels):
    """Usable, missing, clipped and undeclared values of a column, one at a time."""
    values = list(frame[name])
    if name in levels or name == "flag":
        known = levels.get(name, [False, True])
        absent = [value is None or value is pd.NA or value != value for value in values]
        missing = sum(absent)
        usable = sum(not gone and v in known for v, gone in zip(values, absent, strict=True))
        return usable, missing, pd.NA, len(values) - missing - usable
    numbers = [number(value) for value in values]
    missing = sum(math.isnan(value) for value in numbers)
    low, high = bounds.get(name, (-math.inf, math.inf))
    clipped = sum(value < low or value > high for value in numbers)
    return len(values) - missing, missing, clipped if name in bounds else pd.NA, pd.NA


def check_counts(counts, frame, bounds, levels):
    for name in counts.table.index:
        found = tuple(counts.table.loc[name])
        assert [str(n) for n in found] == [str(n) for n in expected(frame, name, bounds, levels)]


FORMULAS = [
    "y ~ .",
    "y ~ x0 + x1 + x2 - 1",
    "y ~ x0 * text + string:category + I(whole > 1) + flag",
    "y ~ log(x0 + 2) + object",
]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize(
    "bounds", [DECLARED["bounds"], {"x1": (-0.5, 2), "object": (0, 1)}], ids=["all", "few"]
)
def test_counts_are_those_of_a_look_at_each_value(formula, bounds, monkeypatch):
    frame, declared = odd(), {**DECLARED, "bounds": bounds}
    whole = check(formula, frame, row_norm=1.0, **declared).counts
    check_counts(whole, frame, **declared)
    monkeypatch.setattr(rows_module, "_PIECE", 64)
    for limit in (1, 3):
        with threads(limit):
            counts = check(formula, frame, row_norm=1.0, **declared).counts
        pd.testing.assert_frame_equal(counts.table, whole.table)
        assert list(counts.classes) == list(whole.classes)


def test_rows_of_zeros_are_those_that_no_model_can_use():
    frame = odd()
    found = check(
        "y ~ log(x0) + text", frame, row_norm=1.0, levels={**DECLARED["levels"], "y": [0, 1]}
    ).counts
    with np.errstate(all="ignore"):
        usable = np.isfinite(np.log(frame["x0"])) & frame["text"].isin(LEVELS)
    by_class = [int((usable & (frame["y"] == value)).sum()) for value in (0, 1)]
    assert list(found.classes) == by_class
    assert found.zero_rows == len(frame) - sum(by_class)


@pytest.mark.parametrize("model", [dplr, dpsvm, dplpsvm, dpsimplex])
@pytest.mark.parametrize("formula", ["y ~ .", "y ~ text * string + x0"])
def test_a_fit_counts_what_the_check_does(model, formula):
    frame = odd()
    counts = model(formula, frame, **DECLARED).diagnostics.counts
    seen = check(formula, frame, **DECLARED).counts
    pd.testing.assert_frame_equal(counts.table, seen.table)
    pd.testing.assert_series_equal(counts.classes, seen.classes)


def test_everything_that_a_fit_takes():
    frame = odd()[["x0", "x1", "x2", "y"]]
    bounds = {f"x{i}": (-1, 1) for i in range(3)}
    counts = check(frame, bounds=bounds, levels={"y": [0, 1]}).counts
    for data in (dict(frame), {name: frame[name].to_numpy() for name in frame}):
        pd.testing.assert_frame_equal(
            check("y ~ .", data, bounds=bounds, levels={"y": [0, 1]}).table, counts.table
        )
    pair = check(frame["y"], frame[["x0", "x1", "x2"]], bounds=bounds, levels={"y": [0, 1]})
    assert sorted(pair.table["usable"]) == sorted(counts.table["usable"])
    array = check(frame.to_numpy(), levels={"X4": [0, 1]}).counts
    assert list(array.table["missing"]) == [counts.table.loc[n, "missing"] for n in
                                            ("y", "x0", "x1", "x2")]  # fmt: skip
    x = sparse.csr_array(np.nan_to_num(frame[["x0", "x1"]].to_numpy(), neginf=0.0))
    thin = check(frame["y"].to_numpy(), x, levels={"y": [0, 1]})
    assert list(thin.classes) == [int((frame["y"] == value).sum()) for value in (0, 1)]
    assert "every record" not in str(thin)


def test_partitions_are_counted_as_a_frame_is():
    dask = pytest.importorskip("dask.dataframe")
    frame = spoiled()
    expected = str(check("y ~ age + smoker", frame, **SCHEMA))
    assert str(check("y ~ age + smoker", dask.from_pandas(frame, npartitions=3), **SCHEMA)) == (
        expected
    )
    by_person = dask.from_pandas(frame.assign(who=range(len(frame))).set_index("who"), 2)
    with pytest.raises(SchemaError, match="whose persons check does not count"):
        check("y ~ age", by_person, person="who", bounds=SCHEMA["bounds"])


# -- what is shown ----------------------------------------------------------------------------


def spoiled():
    frame = clinic()
    frame.loc[1, "age"], frame.loc[2, "smoker"], frame.loc[4, "y"] = 100.0, "perhaps", 2.0
    return frame


def test_every_page_says_that_it_is_not_private():
    found = check(FORMULA, spoiled(), **SCHEMA)
    for text in (str(found), repr(found), found._repr_html_()):
        assert "NOT PRIVATE" in text
    page = " ".join(str(found).split())
    assert "nothing was charged for them and nothing was saved; do not publish them" in page
    assert "Response y: 1 (positive) against 0." in page
    usable = spoiled().drop(index=[2, 4])["y"]
    negative, positive = int((usable == 0).sum()), int((usable == 1).sum())
    assert (
        f"y is 1 (positive) in {positive} usable ones and 0 in {negative}; 2 cannot be used" in page
    )
    assert "age 40 0 1 -" in page
    assert "smoker 39 0 - 1" in page
    assert max(map(len, str(found).splitlines())) <= 79
    assert "usable" not in repr(found)
    html = found._repr_html_()
    for word in ("outside bounds", "2 cannot be used"):
        assert word in html


def test_counts_stand_below_the_rule_of_a_fit():
    above, below = (
        fit_clinic(spoiled()).summary(diagnostics=True).as_text().split("not private -----")
    )
    assert "2 cannot be used and count as rows of zeros" in " ".join(below.split())
    assert "age 40 0 1 -" in " ".join(below.split())
    assert "cannot be used" not in above
    html = fit_clinic(spoiled()).summary(diagnostics=True).as_html()
    assert html.index("color:#d32f2f") < html.index("outside bounds")


# -- nothing is charged, saved or warned of -----------------------------------------------------


def test_it_is_never_saved():
    found = check(FORMULA, clinic(), **SCHEMA)
    fit = fit_clinic(clinic())
    for thing in (found, found.counts, fit.diagnostics, fit.diagnostics.counts):
        with pytest.raises(GuaranteeError, match="cannot be saved"):
            pickle.dumps(thing)
        assert copy.deepcopy(thing) is thing
    assert b"undeclared" not in pickle.dumps(fit)


def test_no_ledger_is_charged_and_nothing_is_warned_of():
    frame = odd()
    frame["object"] = pd.Series([[1], {}, b"x", 1 + 2j] * (len(frame) // 4), dtype=object)
    ledger = Ledger(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ledger:
            check("y ~ .", frame, **DECLARED)
    assert not ledger.entries


def test_numbers_of_a_response_that_are_of_no_class_are_counted():
    """As where the classes are coded 1 and 2, or the response is a weight."""
    frame = clinic().assign(y=lambda f: f["y"] + 1)
    frame.loc[3, "y"] = np.nan
    coded = int((frame["y"] == 2).sum())
    for given in ({"levels": {"y": [0, 1]}}, {"bounds": {"y": (0, 1)}}):
        row = check("y ~ 1", frame.astype({"y": float}), **given).table.loc["y"]
        assert (row["missing"], row["undeclared"]) == (1, 0 if "bounds" in given else coded)


@pytest.mark.parametrize(
    ("values", "subset", "says"),
    [
        ([0, 1] * 4 + [9, 0], None, ""),
        ([0, 1] * 3 + [9, 0, 9, 9], None, "3 OF 10 RECORDS CANNOT BE USED"),
        ([0] * 10, None, "NO RECORD IS 1"),
        ([9] * 10, None, "NO RECORD IS 0 AND NO RECORD IS 1 AND 10 OF 10 RECORDS"),
        ([0, 1] * 5, "x > 0.5 & x < 0.5", "NO RECORD IS 0 AND NO RECORD IS 1"),
        ([0, 1] * 5, "x > 0.8", ""),
    ],
)
def test_the_first_line_warns_of_a_fit_that_would_be_worthless(values, subset, says):
    frame = {"y": np.array(values), "x": np.linspace(0, 1, 10)}
    found = check("y ~ x", frame, levels={"y": [0, 1]}, bounds={"x": (0, 1)}, subset=subset)
    first = str(found).split("NOT PRIVATE")[0]
    assert " ".join(first.split()).startswith(f"DO NOT FIT YET: {says}") if says else not first
    assert first.strip().replace("\n", " ") in found.as_html().replace("\n", " ")


def test_a_class_that_a_stratum_has_not_is_named_first():
    frame = pd.DataFrame({"y": [0, 1] * 5, "x": np.linspace(0, 1, 10), "g": list("aaaabbbbbb")})
    known = {"bounds": {"x": (0, 1)}, "levels": {"y": [0, 1], "g": ["a", "b"]}, "by": "g"}
    found = check("y ~ x", frame, **known)
    assert not str(found).startswith("DO NOT FIT")
    assert found.strata.to_numpy().tolist() == [[2, 2], [3, 3]]
    assert [" ".join(line.split()) for line in str(found).splitlines()][-2:] == [
        "g = a 2 2",
        "g = b 3 3",
    ]
    found = check("y ~ x", frame.assign(y=lambda f: f.y * (f.g == "b")), **known)
    assert str(found).startswith("DO NOT FIT YET: NO RECORD WITH g = a IS 1\n")
    assert check("y ~ x", frame, **known | {"by": None}).strata.empty


def test_persons_are_counted_by_who_records_are_of():
    frame = pd.DataFrame({"y": [0, 1] * 5, "x": np.linspace(0, 1, 10), "who": list("aaaabbbccd")})
    found = check(
        "y ~ x",
        frame,
        bounds={"x": (0, 1)},
        person="who",
        records_per_person=2,
        levels={"y": [0, 1]},
    )
    assert found.counts.n == 10
    assert found.persons == {"m": 4, "most_records": 4, "above_records_per_person": 2}
    told = " ".join(str(found).split())
    assert (
        "The records are of 4 persons; the one with most has 4, and 2 have more than "
        "records_per_person=2, whose records count less." in told
    )
    same = check("y ~ x + person(who, 2)", frame, bounds={"x": (0, 1)}, levels={"y": [0, 1]})
    assert same.persons == found.persons
    whole = check(
        "y ~ x",
        frame,
        bounds={"x": (0, 1)},
        person="who",
        records_per_person=4,
        levels={"y": [0, 1]},
    )
    assert "and none has more than records_per_person=4." in " ".join(str(whole).split())
    assert check("y ~ x", frame, bounds={"x": (0, 1)}, levels={"y": [0, 1]}).persons is None
