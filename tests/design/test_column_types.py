"""The type of a column is public: what it holds is matched in that type, and others are refused.

Comparisons select what pandas, polars and DuckDB select, and levels match the values that equal
them. A table whose type can hold no value of a variable is refused as a fit refuses it, before
anything is paid, by predictions, answers, effects and estimators alike.
"""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import privatelr as lr
from privatelr import Ledger, SchemaError, dplr

pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
pl = pytest.importorskip("polars", reason="needs polars")

N = 240
RNG = np.random.default_rng(1)
K = RNG.integers(0, 4, N)
Y = RNG.random(N) < 0.2 + 0.2 * K
X = RNG.uniform(0, 10, N)
PLAIN = {"eps": 0, "lambda_": 1e-8}
FIRST = 2**53


def arrow(values, type_):
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values, type_)))


SITES = [FIRST + int(k) for k in K]
LONG = {
    "int64": pd.Series(SITES),
    "uint64": pd.Series(SITES, dtype="uint64"),
    "Int64": pd.Series(SITES, dtype="Int64"),
    "UInt64": pd.Series(SITES, dtype="UInt64"),
    "Arrow": arrow(SITES, pa.int64()),
    "dictionary": pd.Series(pd.arrays.ArrowExtensionArray(pa.array(SITES).dictionary_encode())),
    "decimal128": arrow([Decimal(site) for site in SITES], pa.decimal128(38, 0)),
    "decimal256": arrow([Decimal(site) for site in SITES], pa.decimal256(60, 0)),
}
TENTHS = K / 10
SHORT = {
    "float16": pd.Series(TENTHS.astype("float16")),
    "float32": pd.Series(TENTHS.astype("float32")),
    "Float32": pd.Series(TENTHS, dtype="Float32"),
    "Arrow float32": arrow(TENTHS, pa.float32()),
    "sparse": pd.Series(pd.arrays.SparseArray(TENTHS.astype("float32"))),
    "decimal128": arrow([Decimal(int(k)) / 10 for k in K], pa.decimal128(6, 2)),
}


def coef(column, term, **declared):
    return dplr(f"y ~ {term}", pd.DataFrame({"s": column, "y": Y}), **PLAIN, **declared).coef


def require_same(column, other, pairs):
    for (term, declared), (usual, plain) in pairs:
        found, right = coef(column, term, **declared), coef(other, usual, **plain)
        np.testing.assert_allclose(found, right, atol=1e-9, err_msg=f"{term} {declared}")


@pytest.mark.parametrize("kind", LONG)
def test_long_whole_numbers_are_told_apart(kind):
    levels = [FIRST + k for k in range(4)]
    wide = {"bounds": {"s": (0, 2**60)}}
    bare = wide if kind == "dictionary" else {}  # a dictionary says nothing of its numbers
    require_same(
        LONG[kind],
        pd.Series(K),
        [
            ((f"I(s == {FIRST + 1})", bare), ("I(s == 1)", {})),
            ((f"I(s == {FIRST + 1})", wide), ("I(s == 1)", {})),
            ((f"I({FIRST + 2} > s)", bare), ("I(s < 2)", {})),
            ((f"s %in% c({FIRST + 1}, {FIRST + 3})", bare), ("s %in% c(1, 3)", {})),
            (("s", {"levels": {"s": levels}}), ("s", {"levels": {"s": [0, 1, 2, 3]}})),
            ((f"1 + subset(s != {FIRST})", bare), ("1 + subset(s != 0)", {})),
        ],
    )


@pytest.mark.parametrize("kind", SHORT)
def test_numbers_are_compared_at_their_own_precision(kind):
    levels = {"levels": {"s": [0, 0.1, 0.2, 0.3]}}
    pairs = [
        *(("I(s == 0.1)", {}), ("I(0.3 > s)", {}), ("I(s <= 0.1)", {}), ("s %in% c(0.1, 0.3)", {})),
        *(
            ("I(s == 0.3)", {"bounds": {"s": (0, 0.3)}}),
            ("I(s > 0.2)", {"bounds": {"s": (0, 0.2)}}),
        ),
        *(("s", levels), ("factor(s, levels = c(0, 0.1, 0.2, 0.3))", {})),
    ]
    require_same(SHORT[kind], pd.Series(TENTHS), [(pair, pair) for pair in pairs])


@pytest.mark.parametrize(
    "wrap", [pl.from_pandas, lambda d: pl.from_pandas(d).lazy(), pa.Table.from_pandas]
)
def test_decimals_meet_the_levels_that_equal_them(wrap):
    data = pd.DataFrame({"x": X, "y": Y})
    data["g"] = arrow([Decimal(int(k)) for k in K], pa.decimal128(4, 0))
    declared = {"bounds": {"x": (0, 10)}, "levels": {"g": [0, 1, 2, 3]}}
    right = dplr("y ~ x + g", data.assign(g=K), **PLAIN, **declared).coef
    np.testing.assert_allclose(dplr("y ~ x + g", wrap(data), **PLAIN, **declared).coef, right)


# ---- what a table is refused for


TABLE = pd.DataFrame({"x": X, "g": K, "s": np.where(K > 1, "b", "a"), "b": K > 2, "y": Y})
DECLARED = {"bounds": {"x": (0, 10)}, "levels": {"g": [0, 1, 2, 3], "s": ["a", "b"]}}
FIT = dplr("y ~ x + g + I(s == 'a') + b", TABLE, spend="inference", eps=0, **DECLARED)
DATES = pd.Series(pd.Timestamp("2020-01-01"), index=TABLE.index)
OTHER = {
    "texts for a factor of numbers": TABLE.assign(g=TABLE.g.astype(str)),
    "categories of texts for it": TABLE.assign(g=TABLE.g.astype(str).astype("category")),
    "dates for it": TABLE.assign(g=DATES),
    "texts for numbers": TABLE.assign(x=TABLE.x.astype(str)),
    "categories for numbers": TABLE.assign(x=TABLE.s.astype("category")),
    "dates for numbers": TABLE.assign(x=DATES),
    "bytes for numbers": TABLE.assign(x=arrow([b"1"] * N, pa.binary())),
    "spans for numbers": TABLE.assign(x=DATES - DATES),
    "numbers for texts": TABLE.assign(s=TABLE.g),
    "texts for truths": TABLE.assign(b=TABLE.s),
    "truths for a factor of numbers": TABLE.assign(g=TABLE.b),
}
KINDS = {
    "pandas": lambda d: d,
    "polars": pl.from_pandas,
    "lazy": lambda d: pl.from_pandas(d).lazy(),
}


@pytest.mark.parametrize("wrap", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("table", OTHER.values(), ids=OTHER)
def test_a_type_that_holds_no_value_of_a_variable_is_refused(table, wrap):
    ledger = Ledger(epsilon=5)
    data = wrap(table)
    calls = [
        lambda: FIT.predict(data),
        lambda: FIT.predict(data, interval=0.95),
        lambda: FIT.private_roc(data, eps=1.0, ledger=ledger),
    ]
    if not hasattr(data, "collect"):
        calls += [
            lambda: FIT.augment(data),
            lambda: FIT.model_matrix(data),
            lambda: lr.average_marginal_effects(FIT, data),
            lambda: lr.choose({"a": FIT, "b": FIT}, data, eps=1.0, ledger=ledger),
        ]
    with pytest.raises((SchemaError, lr.FormulaError)):  # as a fit, or there by what it computes
        dplr("y ~ x + g + I(s == 'a') + b", data, eps=1.0, ledger=ledger, **DECLARED)
    for call in calls:
        with pytest.raises(SchemaError, match="column"):
            call()
    assert ledger.entries == ()


@pytest.mark.parametrize("y", [TABLE.s, DATES, TABLE.s.astype("category")], ids=["s", "date", "c"])
def test_outcomes_beside_the_data_have_the_type_of_the_response(y):
    ledger = Ledger(epsilon=5)
    fit = dplr(TABLE.y, TABLE[["x"]], eps=0, bounds={"x": (0, 10)})
    with pytest.raises(SchemaError, match="column 'y'"):
        fit.private_roc(TABLE[["x"]], response=y, eps=1.0, ledger=ledger)
    assert ledger.entries == ()


def test_numbers_are_no_outcomes_of_a_model_of_booleans():
    """They may be coded otherwise, such as 1 and 2, and the answer would be charged."""
    ledger = Ledger(epsilon=5)
    fit = dplr("y ~ x", TABLE.assign(y=TABLE.y == 1), eps=0, bounds={"x": (0, 10)})
    for call in (
        fit.private_roc,
        lambda data, **price: lr.choose({"a": fit, "b": fit}, data, **price),
    ):
        with pytest.raises(SchemaError, match="fitted to booleans"):
            call(TABLE.assign(y=TABLE.y + 1), eps=1.0, ledger=ledger)
    with pytest.raises(SchemaError, match="fitted to booleans"):
        fit.private_roc(TABLE[["x"]], response=TABLE.y + 1, eps=1.0, ledger=ledger)
    assert ledger.entries == ()


def test_types_that_hold_the_same_values_are_read():
    right = FIT.predict(TABLE)
    same = {
        "g": [TABLE.g.astype("category"), TABLE.g.astype(float), TABLE.g.astype(object)],
        "x": [TABLE.x.astype(object), arrow(X, pa.float64())],
        "s": [TABLE.s.astype("category"), TABLE.s.astype(object)],
        "b": [TABLE.b.astype(int), TABLE.b.astype("boolean")],
    }
    for name, columns in same.items():
        for column in columns:
            np.testing.assert_array_equal(FIT.predict(TABLE.assign(**{name: column})), right)
    few = TABLE.head(3).assign(g=pd.Categorical([1, 1, None], categories=[1]))
    assert FIT.predict(few).isna().tolist() == [False, False, True]


def test_texts_are_no_numbers_with_bounds():
    with pytest.raises(SchemaError, match=r"bounds.'x'. .* drop the bounds, or pass"):
        dplr("y ~ x", TABLE.assign(x=TABLE.x.astype(str)), eps=1.0, bounds={"x": (0, 10)})


@pytest.mark.parametrize("function", [lr.dplr, lr.dpsvm, lr.dpmultinom])
def test_an_array_of_another_width_is_refused(function, tmp_path):
    from dask import array as da

    table = np.column_stack([X, K / 4])
    y = pd.Categorical(np.array(list("abcd"))[K]) if function is lr.dpmultinom else Y
    fit = function(y, table, eps=0, bounds={"X1": (0, 10), "X2": (0, 1)})
    fit.save(tmp_path / "fit.json")
    wide = np.column_stack([np.ones(N), table])
    for one in (fit, lr.load(tmp_path / "fit.json")):
        one.predict(table)
        for other in (wide, wide[:, :1], da.from_array(wide, chunks=(100, 3))):
            with pytest.raises(SchemaError, match=r"data of . columns?: the fit was of 2 columns"):
                one.predict(other)
        if function is lr.dplr:
            with pytest.raises(SchemaError, match="data of 3 columns: the fit was of 2 columns"):
                one.private_roc(wide, response=Y, eps=1.0)
            with pytest.raises(SchemaError, match="data of 3 columns: the fit was of 2 columns"):
                one.model_matrix(wide)


def test_an_array_may_lack_the_response_that_was_its_last_column():
    whole = np.column_stack([X, K / 4, Y])
    fit = dplr(whole, eps=0, bounds={"X1": (0, 10), "X2": (0, 1), "X3": (0, 1)})
    np.testing.assert_array_equal(fit.predict(whole), fit.predict(whole[:, :2]))
    with pytest.raises(SchemaError, match="data of 4 columns: the fit was of 3 columns"):
        fit.predict(np.column_stack([np.ones(N), whole]))
