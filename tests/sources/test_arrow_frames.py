"""Frames of polars and pyarrow, and short numbers: the rows of pandas' doubles, to the last bit."""

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pytest
from frames_for_laws import FORMULA, SCHEMA, FixedRandomness
from repeated_noise import trial

import privatelr.fitting
from privatelr import SchemaError, check, dplr, dpmultinom, stream
from privatelr.design import plan_design, read_design
from privatelr.formula import parse_formula
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch, declare_schema


def as_frame(data):
    return as_batch(data).frame


dask = pytest.importorskip("dask", reason="needs the extra [dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")
N = 700
RNG = np.random.default_rng(3)
MISSING = np.arange(N) % 50 == 9
COLUMNS = {
    "y": RNG.integers(0, 2, N) == 1,
    "a": RNG.uniform(-2, 2, N),
    "b": RNG.uniform(-2, 2, N).astype(np.float32),
    "i": RNG.integers(-9, 9, N),
    "s": RNG.integers(0, 99, N).astype(np.int8),
    "u": RNG.integers(0, 2**63, N).astype(np.uint64) * 2 + 1,
    "t": RNG.random(N) < 0.5,
    "g": RNG.choice(["p", "q", "r"], N),
    "h": RNG.choice(["v", "w"], N),
}
BOUNDS = {"a": (-1, 1.5), "b": (-1, 1), "i": (-5, 5), "s": (0, 50), "u": (0, 2**63)}
LEVELS = {"g": ["p", "q"], "h": ["w", "v"]}
FORMULAS = ["y ~ .", "y ~ a + b + i + s + u", "y ~ a * g + log(s + 1):t + h", "t ~ b + i - 1"]


def read(frame, formula):
    frame = as_frame(frame)
    schema = declare_schema(bounds=BOUNDS, levels=LEVELS)
    spec = plan_design(parse_formula(formula, list(frame.columns)), as_batch(frame), schema)
    return read_design(spec, as_batch(frame), DenseRows)


def with_nulls(maker, names=("a", "i", "u", "g")):
    """The columns by a function of values and a mask of what is missing in some of them."""
    none = np.zeros(N, dtype=bool)
    return {name: maker(v, MISSING if name in names else none) for name, v in COLUMNS.items()}


def polars_column(values, missing):
    return pl.Series(values.tolist(), dtype=pl.Series(values).dtype).set(pl.Series(missing), None)


def in_pieces(table):
    """The same table in three pieces of memory."""
    parts = [table.slice(0, 100), table.slice(100, 3), table.slice(103)]
    return pa.concat_tables(parts) if isinstance(table, pa.Table) else pl.concat(parts)


def pandas_nulls():
    made = {}
    for name, values in COLUMNS.items():
        column = pd.Series(values)
        if name in ("a", "i", "u"):
            column = column.astype(float).mask(MISSING)
        made[name] = column.astype(object).mask(MISSING, None) if name == "g" else column
    return pd.DataFrame(made)


WHOLE = {
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars in pieces": lambda: in_pieces(pl.DataFrame(COLUMNS)),
    "pyarrow": lambda: pa.table(COLUMNS),
    "pyarrow in pieces": lambda: in_pieces(pa.table(COLUMNS)),
    "pandas by columns": lambda: pd.DataFrame(COLUMNS, copy=False),
    "pandas of Arrow": lambda: pa.table(COLUMNS).to_pandas(types_mapper=pd.ArrowDtype),
}
NULLS = {
    "polars": lambda: pl.DataFrame(with_nulls(polars_column)),
    "polars in pieces": lambda: in_pieces(pl.DataFrame(with_nulls(polars_column))),
    "pyarrow": lambda: pa.table(with_nulls(lambda v, m: pa.array(v, mask=m))),
    "pyarrow in pieces": lambda: in_pieces(pa.table(with_nulls(lambda v, m: pa.array(v, mask=m)))),
}


def check_same(rows, expected):
    np.testing.assert_array_equal(rows.x.view(np.int64), expected.x.view(np.int64))
    np.testing.assert_array_equal(rows.y, expected.y)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("library", WHOLE)
def test_every_library_gives_the_rows_of_pandas(library, formula):
    check_same(read(WHOLE[library](), formula), read(pd.DataFrame(COLUMNS), formula))


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("library", NULLS)
def test_nulls_make_rows_unusable(library, formula):
    rows, expected = read(NULLS[library](), formula), read(pandas_nulls(), formula)
    check_same(rows, expected)
    if "a" in formula.split("~")[1]:
        assert not rows.x[MISSING].any()
        assert not rows.y[MISSING].any()


@pytest.mark.parametrize("formula", FORMULAS)
def test_short_numbers_give_the_rows_of_their_doubles(formula):
    """Integers and single precision are exact as doubles, so converting them first is no news."""
    frame = pd.DataFrame(COLUMNS)
    long = frame.astype({name: float for name in ("a", "b", "i", "s", "u")})
    check_same(read(frame, formula), read(long, formula))


def test_an_array_is_not_copied_to_be_read():
    array = np.zeros((50, 3))
    assert np.shares_memory(as_frame(array)["X2"].to_numpy(), array)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_numbers_are_the_memory_of_the_user(library):
    made = WHOLE[library]()
    frame = as_frame(made)
    for name in ("a", "b", "i", "s", "u"):
        own = made[name].to_numpy(**({"allow_copy": False} if library == "polars" else {}))
        if library == "pyarrow":
            own = made[name].chunk(0).to_numpy()
        assert np.shares_memory(frame[name].to_numpy(), own), name


def test_categories_of_every_library():
    """Those of a type are levels; those of a dictionary are what occurs, and need levels."""
    values = pd.Categorical(COLUMNS["h"], categories=["v", "w"])
    y, texts = COLUMNS["y"], COLUMNS["h"].tolist()
    typed = [
        pd.DataFrame({"y": y, "h": values}),
        pl.DataFrame({"y": y, "h": pl.Series(texts, dtype=pl.Enum(["v", "w"]))}),
    ]
    expected, other = (read_levels(frame) for frame in typed)
    check_same(other, expected)
    for frame in found_levels(texts, y).values():
        with pytest.raises(SchemaError, match="levels="):
            read_levels(frame)
        check_same(read_levels(frame, {"h": ["v", "w"]}), expected)


def found_levels(texts, y):
    """Columns whose dictionaries belong to the data."""
    encoded = pa.array(texts).dictionary_encode()
    return {
        "polars": pl.DataFrame({"y": y, "h": pl.Series(texts).cast(pl.Categorical)}),
        "pyarrow": pa.table({"y": y, "h": encoded}),
        "pieces": in_pieces(pa.table({"y": y, "h": encoded})),
        "pandas": pd.DataFrame({"y": y, "h": in_pandas(encoded)}),
        "mapping": {"y": y, "h": in_pandas(encoded)},
    }


def in_pandas(column):
    """A column of pandas that is held by Arrow, with the type that it has there."""
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([column])))


def other_spellings(column):
    """The same values as runs, as a view if they are texts, and as dictionaries of both."""
    encoded = column.dictionary_encode()
    yield encoded
    yield pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary, ordered=True)
    yield pa.compute.run_end_encode(column)
    if pa.types.is_string(column.type):
        yield column.cast(pa.string_view())
        views = encoded.dictionary.cast(pa.string_view())
        yield pa.DictionaryArray.from_arrays(encoded.indices, views)


def read_levels(frame, levels=None):
    frame = as_frame(frame)
    schema = declare_schema(levels=levels or {})
    spec = plan_design(parse_formula("y ~ h", ["y", "h"]), as_batch(frame), schema)
    return read_design(spec, as_batch(frame), DenseRows)


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "pieces", "pandas", "mapping"])
def test_law_of_dictionaries(kind):
    """One record with a value of its own changes neither what a model is nor what an error says."""
    texts = COLUMNS["h"].tolist()
    frames = [found_levels([*texts[:-1], last], COLUMNS["y"])[kind] for last in ("v", "SECRET")]
    for levels in (None, {"h": ["a", "b"]}):
        said = []
        for frame in frames:
            try:
                read_levels(frame, levels)
                said.append("read")
            except SchemaError as error:
                said.append(str(error))
        assert said[0] == said[1]
        assert "SECRET" not in said[0]


def test_dictionaries_of_views_are_texts():
    """As Feather files of polars have them; pyarrow looks up no view."""
    codes = pa.array([0, 1, None] * 100, pa.uint32())
    coded = pa.DictionaryArray.from_arrays(codes, pa.array(["v", "w"]).cast(pa.string_view()))
    y = [False, True, True] * 100
    found, expected = (
        read_levels(pa.table({"y": y, "h": column}), {"h": ["v", "w"]})
        for column in (coded, pa.array(["v", "w", None] * 100))
    )
    np.testing.assert_array_equal(found.x, expected.x)


@pytest.mark.parametrize(("name", "kind"), [("smoker", "str"), ("dose", float), ("y", float)])
def test_columns_of_pandas_are_read_however_arrow_spells_them(name, kind):
    """In a fit, a check and predictions; what a type says of levels is not read off the data."""
    frame = trial(200).astype({name: kind})
    frame.loc[3, name] = None
    expected = dplr(FORMULA, frame, **{**SCHEMA, "eps": 0})
    for column in other_spellings(pa.array(frame[name], from_pandas=True)):
        if name == "y" and getattr(column.type, "ordered", False):
            continue
        given = frame.assign(**{name: in_pandas(column)})
        before = given.dtypes.copy()
        found = dplr(FORMULA, given, **{**SCHEMA, "eps": 0})
        pd.testing.assert_series_equal(found.coef, expected.coef)
        pd.testing.assert_series_equal(expected.predict(given), expected.predict(frame))
        assert str(check(FORMULA, given, **SCHEMA)) == str(check(FORMULA, frame, **SCHEMA))
        assert given.dtypes.equals(before)
        if pa.types.is_run_end_encoded(column.type):
            continue  # Dask has no such columns
        parts = [dask.delayed(given, traverse=False)]
        lazy = dd.from_delayed(parts, meta=given.iloc[:0], verify_meta=False)
        np.testing.assert_allclose(dplr(FORMULA, lazy, **{**SCHEMA, "eps": 0}).coef, expected.coef)


def test_an_order_of_a_dictionary_in_pandas_is_an_order():
    _, ordered, *_ = map(in_pandas, other_spellings(pa.array(COLUMNS["g"].tolist())))
    data = {"y": ordered, "a": COLUMNS["a"]}
    for given in (data, pd.DataFrame(data)):
        with pytest.raises(SchemaError, match="its levels have an order"):
            dpmultinom("y ~ a", given, 1, bounds={"a": (-1, 1)}, levels={"y": ["p", "q", "r"]})


def test_a_null_among_booleans_is_a_missing_value():
    y, flags = COLUMNS["y"], [*COLUMNS["t"][:-1].tolist(), None]
    for frame in (pl.DataFrame({"y": y, "h": flags}), pa.table({"y": y, "h": flags})):
        rows = read_levels(frame)
        assert rows.y[-1] == 0
        assert (rows.y[:-1] != 0).all()


def test_columns_that_no_model_reads_are_never_looked_at():
    """Dates beyond Python's years, and text that is none."""
    date = pa.array([0] * (N - 1) + [2**31 - 1], pa.int32()).cast(pa.date32())
    table = pa.table({"y": COLUMNS["y"], "a": COLUMNS["a"], "d": date, "s": broken_text()})
    fit = dplr("y ~ a", table, eps=1, bounds={"a": (-1, 1)})
    assert fit.predict(table).notna().all()
    with pytest.raises(SchemaError, match="type date32"):
        dplr("y ~ a + d", table, eps=1, bounds={"a": (-1, 1)})


def broken_text():
    """Of which the last value is not UTF-8."""
    data = b"p" * (N - 1) + b"\xff"
    offsets = pa.py_buffer(np.arange(N + 1, dtype=np.int32).tobytes())
    return pa.StringArray.from_buffers(N, offsets, pa.py_buffer(data))


@pytest.mark.parametrize("formula", ["y ~ s", "s == 'p' ~ a"])
@pytest.mark.parametrize("kind", ["pyarrow", "pandas"])
def test_text_that_cannot_be_decoded_is_missing(formula, kind):
    columns = {"y": COLUMNS["y"], "a": COLUMNS["a"], "s": broken_text()}
    frame = pa.table(columns)
    if kind == "pandas":
        text = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([columns["s"]])))
        frame = pd.DataFrame({**columns, "s": text})
    fixed = pd.DataFrame({**columns, "s": ["p"] * (N - 1) + [None]})
    schema = declare_schema(levels={"s": ["p", "q"]}, bounds={"a": (-1, 1)})
    rows = []
    for data in (as_frame(frame), fixed):
        spec = plan_design(parse_formula(formula, ["y", "a", "s"]), as_batch(data), schema)
        rows.append(read_design(spec, as_batch(data), DenseRows))
    check_same(*rows)
    assert rows[0].y[-1] == 0


def test_text_that_cannot_be_encoded_is_no_level():
    lone = "\ud800S"
    y = np.tile([False, True], 20)
    held = {
        "strings": pd.DataFrame(
            {"y": y, "g": pd.array([lone, *["u"] * 39], dtype="string[python]")}
        ),
        "objects": pd.DataFrame({"y": y, "g": pd.Series([lone, *["u"] * 39], dtype=object)}),
        "mapping": {"y": y, "g": [lone, *["u"] * 39]},
    }
    for data in held.values():
        frame = as_frame(data)
        schema = declare_schema(levels={"g": ["u", "v"]})
        spec = plan_design(parse_formula("y ~ g", ["y", "g"]), as_batch(frame), schema)
        rows = read_design(spec, as_batch(frame), DenseRows)
        assert rows.y[0] == 0
        assert (rows.y[1:] != 0).all()


def test_two_columns_of_a_name_are_refused_in_words():
    table = pa.table([pa.array([1, 0]), pa.array([1, 0])], names=["y", "y"])
    with pytest.raises(SchemaError, match="two columns named 'y'"):
        as_frame(table)


def test_lazy_frames_are_refused():
    with pytest.raises(SchemaError, match="data takes a data frame"):
        as_frame(pl.DataFrame(COLUMNS).lazy())


LISTS = pa.DictionaryArray.from_arrays(pa.array([0] * N), pa.array([["secret"]]))
RUNS = pa.RunEndEncodedArray.from_arrays(
    pa.array([N], pa.int32()), pa.array(["secret"]).dictionary_encode()
)


@pytest.mark.parametrize("coded", [LISTS, RUNS], ids=["lists", "runs"])
@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_columns_that_cannot_be_decoded_matter_where_they_are_used(coded, library, monkeypatch):
    """An error of Arrow's may quote what is stored, which is a value of the data."""
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)
    whole, held = pd.DataFrame(COLUMNS), pa.chunked_array([coded])
    if library == "pandas":
        bad = whole.assign(g=pd.Series(pd.arrays.ArrowExtensionArray(held)))
    else:
        bad = pa.table({**COLUMNS, "g": held})
    how = {"bounds": {"a": (-1, 1.5)}}
    fitted = dplr("y ~ a", bad, **how)
    assert fitted.coef.equals(dplr("y ~ a", whole, **how).coef)
    assert str(check("y ~ a", bad, bounds=how["bounds"]))
    assert len(fitted.predict(bad)) == N
    how["levels"] = {"g": ["p", "q"]}
    used = dplr("y ~ a + g", whole, **how)
    for call in (
        lambda: dplr("y ~ a + g", bad, **how),
        lambda: check("y ~ a + g", bad, bounds=how["bounds"], levels=how["levels"]),
        lambda: used.predict(bad),
    ):
        with pytest.raises(SchemaError, match=r"^column 'g' .* cannot decode") as told:
            call()
        assert "secret" not in str(told.value)


OUTSIDE = {"int8": [-1, 3, 100], "int64": [-(2**63), 3, 2**63 - 1], "uint64": [3, 2**63, 2**64 - 1]}
SPOILED = [5, 50, -1]
USED = {"bounds": {"a": (-1, 1.5)}, "levels": {"g": ["p", "q", "r"]}}


def spoil(values, levels, kind):
    """Texts by their places in a list of them, with three places that lie outside of it."""
    places = np.array([levels.index(value) for value in values], dtype=kind)
    places[SPOILED] = np.array(OUTSIDE[kind], dtype=kind)
    listed = pa.array(levels).cast(pa.string_view() if kind == "int8" else pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(places), listed, safe=False)


def spoiled_column(kind):
    """A column in two pieces whose lists differ, and the same values with None at these places."""
    texts = COLUMNS["g"].tolist()
    halves = texts[:400], texts[400:]
    chunks = [
        spoil(*each, kind) for each in zip(halves, (["p", "q", "r"], ["r", "q", "p"]), strict=True)
    ]
    for half in halves:
        for place in SPOILED:
            half[place] = None
    return pa.chunked_array(chunks), pa.array([*halves[0], *halves[1]])


KINDS_OF_DATA = ["pandas", "mapping", "pyarrow", "kept", "streamed", "dask"]
OF_VIEWS = ("dask", "int8")  # pandas makes no empty column of the type, which Dask asks for


@pytest.mark.parametrize(
    ("library", "kind"), [pair for pair in product(KINDS_OF_DATA, OUTSIDE) if pair != OF_VIEWS]
)
def test_places_outside_of_a_dictionary_are_missing(kind, library, monkeypatch):
    """One record would decide else whether there is an error, in a stream after the payment."""
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)
    column, fixed = spoiled_column(kind)
    table, expected = pa.table({**COLUMNS, "g": column}), pa.table({**COLUMNS, "g": fixed})
    held = pd.Series(pd.arrays.ArrowExtensionArray(column))
    frame = pd.DataFrame(COLUMNS).assign(g=held)
    bad = {
        "pandas": lambda: frame,
        "mapping": lambda: {**COLUMNS, "g": held},
        "pyarrow": lambda: table,
        "kept": lambda: stream(table.to_reader),
        "streamed": lambda: stream(table.to_reader, memory=0),
        "dask": lambda: dd.from_pandas(frame, npartitions=2),
    }[library]()
    for formula in ("y ~ a + g", "g == 'p' ~ a"):
        found, same = (dplr(formula, data, **USED) for data in (bad, expected))
        np.testing.assert_allclose(found.coef, same.coef, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.predict(bad), same.predict(expected), rtol=0, atol=1e-9)
        assert str(check(formula, bad, **USED)) == str(check(formula, expected, **USED))


@pytest.mark.parametrize("kind", OUTSIDE)
def test_persons_outside_of_a_dictionary_are_missing(kind, monkeypatch):
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)
    column, fixed = spoiled_column(kind)
    table, expected = pa.table({**COLUMNS, "g": column}), pa.table({**COLUMNS, "g": fixed})
    how = {"bounds": {"a": (-1, 1.5)}, "person": "g", "records_per_person": 300}
    same = dplr("y ~ a", expected, **how).coef
    for data in (table, stream(table.to_reader), stream(table.to_reader, memory=0)):
        found = dplr("y ~ a", data, **how).coef
        np.testing.assert_allclose(found, same, rtol=0, atol=1e-9)
