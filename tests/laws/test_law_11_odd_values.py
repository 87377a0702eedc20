"""Law 11 over all containers: an odd value in one record is missing there and seen nowhere else.

Two neighbours of the same length are fitted under one draw. One holds a value in one record, in
every column, that none of the others is like. They end in the same error or in the same file and
page, what was paid for apart, and say the same on the way.
"""

import contextlib
import datetime
import io
import math
import pickle
import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import fixed_noise, stored
from scipy import sparse

from privatelr import SchemaError, dplpsvm, dplr, dpsimplex, dpsvm, progress_line
from privatelr.cli.tables import open_table, reading_of

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
da = pytest.importorskip("dask.array", reason="needs the extra [dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")
pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
pl = pytest.importorskip("polars", reason="needs polars")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra [parquet]")

N = 60


# ---- what is odd


def tell(*_, **__):
    """A method that lets the world know that it was called."""
    print("the record is there")
    warnings.warn("the record is there", UserWarning, stacklevel=1)
    raise SystemExit("the record is there")


def telling(*names, of=object):
    return type("Telling", (of,), {"__hash__": of.__hash__, **dict.fromkeys(names, tell)})


class Warns:
    def __float__(self):
        warnings.warn("the record is there", UserWarning, stacklevel=1)
        return 0.5


class Exact(float):
    """A float in all but type, which makes `float` warn if `__float__` returns it."""


class Subclass:
    def __float__(self):
        return Exact(0.5)


EVERYTHING = (
    *("__float__", "__int__", "__index__", "__complex__", "__bool__", "__len__", "__iter__"),
    *("__eq__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__", "__hash__", "__contains__"),
    *("__str__", "__repr__", "__format__", "__array__", "__getitem__", "__getattribute__"),
    *("__add__", "__radd__", "__mul__", "__neg__", "__abs__", "__truediv__"),
)


def odd_values():
    nested = np.empty((), dtype=object)
    nested[()] = telling("__float__")()
    plain = [
        *(7, 7.5, "7", "zzz", True, None, np.nan, np.inf, 10**400, 1j, b"7", [0.5], ["a"], (1, 2)),
        *(pd.NA, pd.NaT, pd.Timestamp("2020-01-01"), pd.Period("2020-01"), pd.Interval(0, 1)),
        *(pd.Timedelta(1, "D"), Decimal("0.5"), Decimal("sNaN"), Fraction(1, 3)),
        *(datetime.date(2020, 1, 1), np.datetime64("2020"), np.timedelta64(1, "D"), "\ud800"),
        *(np.float32(0.1), np.longdouble("1e400"), np.array(0.5), np.array([1.0, 2.0]), nested),
        *(np.ma.masked, {"a": 1}, pd.Series([1.0]), Warns(), Subclass(), Exact(0.5)),
    ]
    loud = [
        *(telling("__float__"), telling("__eq__"), telling("__hash__", "__eq__")),
        *(telling("__float__", of=float), telling("__eq__", "__hash__", of=str)),
        *(telling("__ne__", "__eq__", of=float), telling("__ne__", "__eq__", of=Decimal)),
        *(telling("__len__", "__array__"), telling("__class__"), telling(*EVERYTHING)),
    ]
    return [*plain, *(kind() for kind in loud)]


ODDEST = (7.5, "zzz", None, pd.Timestamp("2020-01-01"), pd.Period("2020-01"), Decimal("0.5"))

# ---- what the other records hold

TIMES = pd.date_range("2020-01-01", periods=N, freq="D")
READ = {
    "numbers": [i / 8 for i in range(N)],
    "strings": list("abbab" * (N // 5)),
    "truths": [i % 3 == 0 for i in range(N)],
}
"""Columns that a model can use."""
FOREIGN = {
    "times": list(TIMES),
    "periods": list(TIMES.to_period("D")),
    "intervals": list(pd.interval_range(0, N)),
    "deltas": list(TIMES - TIMES[0]),
    "dates": [time.date() for time in TIMES],
    "decimals": [Decimal(i) / 8 for i in range(N)],
    "bytes": [b"%d" % i for i in range(N)],
    "lists": [[i] for i in range(N)],
    "words": list("cddcd" * (N // 5)),
}
"""Columns that pandas has, or has not, a type for."""
LEVELS = {"strings": ["a", "b"], "truths": [False, True], "answer": ["no", "yes"]}
USABLE = {"answer": ["no", "yes"] * (N // 2), **READ, **FOREIGN}, tuple(READ)
UNUSABLE = {"answer": [0, 1] * (N // 2), **FOREIGN}, tuple(FOREIGN)
PLANS = {"usable": USABLE, "foreign": UNUSABLE}


def with_odd(columns, odd):
    """The columns of a neighbour: the first records hold odd values, each in all columns."""
    return {name: [*odd, *cells[len(odd) :]] for name, cells in columns.items()}


def declared(columns, used):
    """The same public facts whatever the container: bounds where there are no levels."""
    numeric = isinstance(columns["answer"][-1], int)
    levels = {name: LEVELS[name] for name in ("answer", *used) if name in LEVELS and not numeric}
    bounds = {name: (0, 1 if name == "answer" else 9) for name in ("answer", *used)}
    return {"bounds": {k: v for k, v in bounds.items() if k not in levels}, "levels": levels}


# ---- containers


def objects(cells):
    found = np.empty(len(cells), dtype=object)
    for index, cell in enumerate(cells):
        found[index] = cell
    return found


def table(columns):
    return np.stack([objects(cells) for cells in columns.values()], axis=1)


def series(cells):
    return pd.Series(objects(cells), dtype=object)


def frame(columns):
    return pd.DataFrame({name: series(cells) for name, cells in columns.items()})


def masked(cells):
    return np.ma.MaskedArray(objects(cells), mask=[False] * (len(cells) - 1) + [True])


def formula(used, names):
    called = [names.get(name, name) for name in ("answer", *used)]
    return f"{called[0]} ~ {' + '.join(called[1:])}"


def numbers(columns):
    """What the columns of an array are called."""
    return {name: f"X{index + 1}" for index, name in enumerate(columns)}


# each takes the columns and those that the model uses; formula, or response, then the data, and
# the names under which columns go there


def mapping(wrap):
    return of_columns(lambda columns: {name: wrap(cells) for name, cells in columns.items()})


def of_columns(make):
    return lambda columns, used: (formula(used, {}), make(columns), {})


def of_table(make):
    def build(columns, used):
        names = numbers(columns)
        return formula(used, names), make(table(columns)), names

    return build


def pair(wrap_y, wrap_x, *, answer="y"):
    def build(columns, used):
        x = wrap_x({name: columns[name] for name in used})
        names = {} if isinstance(x, dict | pd.DataFrame) else numbers(used)
        return wrap_y(columns["answer"]), x, {"answer": answer, **names}

    return build


def vector(wrap_y, wrap_x):
    """One covariate."""

    def build(columns, used):
        return wrap_y(columns["answer"]), wrap_x(columns[used[0]]), {"answer": "y", used[0]: "X1"}

    return build


def in_parts(build):
    """A Dask frame of two partitions of objects, made by a function of columns."""

    def halves(columns, used):
        cut = [{k: v[a:b] for k, v in columns.items()} for a, b in ((0, 50), (50, N))]
        # Dask names a task by what it holds, and asks it
        parts = [dask.delayed(lambda c=c: build(c), pure=False)() for c in cut]
        meta = frame({name: [] for name in columns})
        with dask.config.set({"dataframe.convert-string": False}):  # Dask would spell each object
            made = dd.from_delayed(parts, meta=meta, verify_meta=False)
        return formula(used, {}), made, {}

    return halves


def dask_array(array):
    parts = [array[:50], array[50:]]
    blocks = [
        da.from_delayed(dask.delayed(lambda p=p: p, pure=False)(), p.shape, dtype=object)
        for p in parts
    ]
    return da.concatenate(blocks)


def inferred(columns):
    """A partition whose types pandas has read off its values."""
    return pd.DataFrame({name: objects(cells) for name, cells in columns.items()})


OBJECTS = {
    "lists": mapping(list),
    "tuples": mapping(tuple),
    "arrays": mapping(objects),
    "series": mapping(series),
    "index": mapping(lambda cells: pd.Index(objects(cells), dtype=object)),
    "extension": mapping(lambda cells: series(cells).array),
    "masked": mapping(masked),
    "frame": of_columns(frame),
    "table": of_table(np.array),
    "masked table": of_table(np.ma.array),
    "list, array": pair(list, table),
    "array, array": pair(objects, table),
    "column, array": pair(lambda cells: objects(cells)[:, None], table),
    "series, frame": pair(series, frame),
    "frame, frame": pair(lambda cells: frame({"answer": cells}), frame, answer="answer"),
    "index, mapping": pair(lambda cells: pd.Index(objects(cells), dtype=object), dict),
    "list, vector": vector(list, objects),
    "list, series": vector(list, series),
}
DASK = {
    "dask frame": in_parts(frame),
    "dask frame of any types": in_parts(inferred),
    "dask array": of_table(dask_array),
    "dask arrays": pair(lambda cells: dask_array(objects(cells)), lambda c: dask_array(table(c))),
}


# ---- comparing


def outcome(build, columns, used, folder=None):
    """All that a user sees of a fit and of predictions, or of an error in their place."""
    said = io.StringIO()
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        # a progress line is drawn at fixed times, and time is not covered
        mock.patch.object(progress_line, "OFTEN", math.inf),
    ):
        warnings.simplefilter("always")
        try:
            seen, link = fitted(build, columns, used, folder)
        except BaseException as error:  # an odd value may end the interpreter
            seen, link = (type(error), str(error)), np.empty(0)
    return (seen, said.getvalue(), [str(warning.message) for warning in caught]), link


def fitted(build, columns, used, folder):
    first, second, names = build(columns, used)
    read = used[:1] if np.ndim(second) == 1 and not isinstance(second, dict) else used
    schema = {
        argument: {names.get(name, name): value for name, value in public.items()}
        for argument, public in declared(columns, read).items()
    }
    fit = dplr(first, second, verbose=1, **schema)
    # the coefficients are paid for
    blank = replace(fit, release=replace(fit.release, coef=np.zeros_like(fit.release.coef)))
    data = second
    if read != used:
        data = second.to_frame("X1") if isinstance(second, pd.Series) else second[:, None]
    link = np.asarray(blank.predict(data, type="link"))
    page = str(blank).split("not private")[0]
    return (saved(blank, folder) if folder else stored(blank), page), link


def saved(fit, folder):
    fit.save(folder / "model.json", overwrite=True)
    return (folder / "model.json").read_bytes()


def check_unseen(monkeypatch, build, plan, folder=None, values=(), together=()):
    """No odd value changes anything but the record that it is in.

    Each of `values` makes a neighbour of its own, and `together` are in one, as a number of records
    apart from the others as there are values.
    """
    columns, used = PLANS[plan]
    with fixed_noise(monkeypatch), dask.config.set(scheduler="synchronous"):
        usual, link = outcome(build, columns, used, folder)
        assert isinstance(usual[0][0], bytes), usual  # or all of them could be one error
        for odd in [*([value] for value in values), list(together)]:
            found, other = outcome(build, with_odd(columns, odd), used, folder)
            assert found == usual, list(map(type, odd))
            np.testing.assert_array_equal(other[len(odd) :], link[len(odd) :])


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("build", [*OBJECTS.values(), *DASK.values()], ids=[*OBJECTS, *DASK])
def test_law(monkeypatch, tmp_path, build, plan):
    check_unseen(monkeypatch, build, plan, tmp_path, together=odd_values())
    check_unseen(monkeypatch, build, plan, values=ODDEST)


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", ["lists", "table"])
def test_law_for_every_value_alone(monkeypatch, name, plan):
    check_unseen(monkeypatch, OBJECTS[name], plan, values=odd_values())


@pytest.mark.parametrize("model", [dpsvm, dplpsvm, dpsimplex])
@pytest.mark.parametrize("name", ["lists", "table"])
def test_law_for_every_front_door(model, name):
    """They read as `dplr` does; what was drawn is compared in laws of their own."""

    def heard(columns):
        first, second, names = OBJECTS[name](columns, used)
        public = declared(columns, used)
        schema = {key: {names.get(k, k): v for k, v in public[key].items()} for key in public}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit = model(first, second, verbose=1, **schema)
        return pickle.dumps(fit.spec), [str(warning.message) for warning in caught]

    columns, used = PLANS["usable"]
    with contextlib.redirect_stdout(io.StringIO()) as usual:
        expected = heard(columns)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert heard(with_odd(columns, odd_values())) == expected
    assert said.getvalue() == usual.getvalue() != ""


# ---- predictions by the columns of a matrix


@pytest.mark.parametrize("wrap", [np.array, pd.DataFrame], ids=["array", "frame"])
def test_law_for_predictions_of_a_matrix(monkeypatch, wrap):
    with fixed_noise(monkeypatch):
        fit = dplr(np.arange(N) % 2, sparse.eye_array(N, 3, format="csr"), levels={"y": [0, 1]})
    cells = np.ones((N, 3), dtype=object)
    odd = cells.copy()
    for row, value in enumerate(odd_values()):
        odd[row, 1] = value
    last = len(odd_values())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit.predict(wrap(odd))
    assert found[last:].tolist() == fit.predict(wrap(cells))[last:].tolist()
    for refused in (cells.tolist(), [[1.0], [1.0, 2.0]], np.ones(3)):
        with pytest.raises(SchemaError, match="data of"):
            fit.predict(refused)


# ---- containers that have types, in which an odd value is a missing or an extreme one

TYPED = {
    "answer": ["no", "yes"] * (N // 2),
    "numbers": READ["numbers"],
    "wholes": list(range(N)),
    "strings": READ["strings"],
    "truths": READ["truths"],
}
ARROW = {
    "answer": pa.string(),
    "numbers": pa.float64(),
    "wholes": pa.int32(),
    "strings": pa.string(),
    "truths": pa.bool_(),
}
PANDAS = dict(zip(ARROW, ("string", "Float64", "Int32", "string", "boolean"), strict=True))
NUMPY = dict(zip(ARROW, ("U9", "f8", "i4", "U9", "?"), strict=True))
EXTREMES = {
    "missing": [None] * 5,
    "extreme": ["zzz", 1e300, 2**31 - 1, "zzz", True],
    "infinite": ["", np.inf, -(2**31), "", False],
    "long": ["no" * 4, np.nan, 0, "b" * 9, None],
}


def arrow(columns):
    return {name: pa.array(cells, ARROW[name]) for name, cells in columns.items()}


def masked_arrays(columns):
    found = {}
    for name, cells in columns.items():
        mask = [cell is None for cell in cells]
        filled = [cells[-1] if cell is None else cell for cell in cells]
        found[name] = np.ma.array(np.array(filled, dtype=NUMPY[name]), mask=mask)
    return found


def from_file(ending, write):
    def read(columns, folder):
        write(columns, folder / f"table{ending}")
        with open_table([str(folder / f"table{ending}")]) as table:
            return table.read({name: reading_of(name, LEVELS.get(name)) for name in columns})[0]

    return read


def write_csv(columns, path):
    lines = [",".join(columns)]
    rows = zip(*columns.values(), strict=True)
    lines += [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def dask_of_typed(columns, _):
    made = pd.DataFrame({name: pd.Series(c, dtype=PANDAS[name]) for name, c in columns.items()})
    return dd.from_pandas(made, npartitions=2)


WITH_TYPES = {
    "nullable": lambda c, _: {name: pd.Series(c[name], dtype=PANDAS[name]) for name in c},
    "nullable arrays": lambda c, _: {name: pd.array(c[name], dtype=PANDAS[name]) for name in c},
    "masked": lambda c, _: masked_arrays(c),
    "pyarrow": lambda c, _: pa.table(arrow(c)),
    "pyarrow columns": lambda c, _: arrow(c),
    "polars": lambda c, _: pl.from_arrow(pa.table(arrow(c))),
    "polars columns": lambda c, _: dict(pl.from_arrow(pa.table(arrow(c))).to_dict()),
    "parquet": from_file(".parquet", lambda c, path: pq.write_table(pa.table(arrow(c)), path)),
    "csv": from_file(".csv", write_csv),
    "dask": dask_of_typed,
}


@pytest.mark.slow
@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("container", WITH_TYPES)
def test_law_for_typed_containers(monkeypatch, tmp_path, container, extreme):
    used = tuple(name for name in TYPED if name != "answer")

    def build(columns, used):
        return formula(used, {}), WITH_TYPES[container](columns, tmp_path), {}

    odd = {name: [value] for name, value in zip(TYPED, EXTREMES[extreme], strict=True)}
    neighbour = {name: odd[name] + cells[1:] for name, cells in TYPED.items()}
    with fixed_noise(monkeypatch), dask.config.set(scheduler="synchronous"):
        usual, link = outcome(build, TYPED, used)
        assert isinstance(usual[0][0], bytes), usual
        found, other = outcome(build, neighbour, used)
    assert found == usual
    np.testing.assert_array_equal(other[1:], link[1:])


@pytest.mark.parametrize("cell", ["zzz", "1 234", "1,5", "0x1", "2020-01-01", "nan", '"', "None"])
def test_law_for_texts_in_a_file(monkeypatch, tmp_path, cell):
    """Where a cell is text anyway, it may be any text that the format allows."""
    quoted = cell if cell != '"' else '""""'
    spelled = f'"{quoted}"' if "," in cell else quoted
    columns = {name: [spelled, *cells[1:]] for name, cells in TYPED.items()}

    def build(columns, used):
        return formula(used, {}), WITH_TYPES["csv"](columns, tmp_path), {}

    used = tuple(name for name in TYPED if name != "answer")
    with fixed_noise(monkeypatch):
        usual, _ = outcome(build, TYPED, used)
        assert isinstance(usual[0][0], bytes), usual
        found, _ = outcome(build, columns, used)
    assert found == usual


# ---- what the law would notice


def inferring(name, values):
    """As pandas makes a column, by all values."""
    return pd.Series(pd.DataFrame({"column": values})["column"])


def trusting(value):
    """A number as Python makes one, by asking the object."""
    try:
        return float(value)
    except Exception:
        return np.nan


INFERS = pytest.mark.skipif(
    int(pd.__version__.partition(".")[0]) < 3,
    reason="pandas before 3 infers no dates of objects, so that this bug changes nothing",
)


@pytest.mark.parametrize(
    ("where", "planted", "odd"),
    [
        ("sources.data_source.as_column", inferring, "zzz"),
        pytest.param("sources.data_source.as_column", inferring, 7.5, marks=INFERS),
        ("design.variables.number_or_spelled", trusting, Warns()),
        ("design.variables.number_or_spelled", trusting, Subclass()),
        ("design.variables.number_or_spelled", trusting, telling("__float__")()),
    ],
    ids=["inferred from texts", "inferred from dates", "warned", "of a subclass", "asked"],
)
def test_planted_bugs_are_caught(monkeypatch, where, planted, odd):
    monkeypatch.setattr(f"privatelr.{where}", planted)
    plan = "usable" if odd == 7.5 or where.startswith("design") else "foreign"
    with pytest.raises(AssertionError):
        check_unseen(monkeypatch, OBJECTS["arrays"], plan, values=[odd])


@INFERS
@pytest.mark.parametrize("name", ["table", "masked table"])
def test_planted_inference_of_a_table_is_caught(monkeypatch, name):
    monkeypatch.setattr(
        "privatelr.sources.data_source.of_array", lambda v: inferring("", np.asarray(v))
    )
    with pytest.raises(AssertionError):
        check_unseen(monkeypatch, OBJECTS[name], "usable", values=[7.5])
