"""Fits of Dask collections: the numbers of a fit in memory, from partitions of any kind."""

import pickle
import re

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from changed_tables import fewer, one_label, one_value
from dask_for_tests import (
    EVERY_MEMORY,
    KEPT,
    STREAMED,
    balls,
    both,
    in_parts,
    objectives,
    one_noise,
)
from frames_for_laws import FORMULA, SCHEMA, clinic
from repeated_noise import trial

from privatelr import (
    FormulaError,
    PrivateLRError,
    SchemaError,
    dplr,
)
from privatelr.design import read_dask_source
from privatelr.numerics import LOSSES, Objective, hessian, mean_change, threads, value_and_gradient
from privatelr.numerics.rows import RowFacts, additions, checksum
from privatelr.numerics.solve import Newton, certified_minimum, gradient_bound, precise_minimum

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
da = pytest.importorskip("dask.array", reason="needs the extra [dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")
Callback = pytest.importorskip("dask.callbacks", reason="needs the extra [dask]").Callback

pytestmark = pytest.mark.usefixtures(one_noise.__name__)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_sums_do_not_depend_on_the_scheduler(scheduler):
    frame = trial(5000)
    _, dense = objectives(frame)
    (parts, _), w = objectives(frame, *[400] * 10), np.array([0.1, -2.0, 1.0, 0.5])
    with dask.config.set(scheduler=scheduler):
        value, gradient = value_and_gradient(parts, w)
        curvature = hessian(parts, w)
        change = mean_change(parts, w)
    expected_value, expected_gradient = value_and_gradient(dense, w)
    assert value == pytest.approx(expected_value, rel=1e-14)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=0, atol=1e-15)
    np.testing.assert_allclose(curvature, hessian(dense, w), rtol=0, atol=1e-14)
    assert change == pytest.approx(mean_change(dense, w), rel=1e-13)
    repeated = value_and_gradient(parts, w)
    assert repeated[0] == value
    assert (repeated[1] == gradient).all()


def test_large_tables_are_steered_by_few_rows_in_few_passes(monkeypatch):
    rows, dense = both(trial(60_000), 25_000, 10_000)
    passes = counted(monkeypatch)
    tilt = np.zeros(4)
    minimum = Newton()(Objective(rows, LOSSES["logistic"], 1e-3, tilt))
    expected = Newton()(Objective(dense, LOSSES["logistic"], 1e-3, tilt))
    np.testing.assert_allclose(minimum.w, expected.w, rtol=0, atol=1e-12)
    assert len(passes) <= 9, "eight folds, and one pass that thins"


def counted(monkeypatch):
    """A list that grows by one for every graph."""
    passes, compute = [], dask.compute
    monkeypatch.setattr(dask, "compute", lambda *args, **kw: passes.append(1) or compute(*args))
    return passes


@EVERY_MEMORY
def test_the_certificate_holds_over_partitions(memory):
    parts, dense = objectives(trial(900), 200, 500, memory=memory)
    w = Newton()(dense).w
    assert gradient_bound(parts, w) == pytest.approx(gradient_bound(dense, w), rel=1e-6, abs=1e-9)


def test_where_doubles_do_not_suffice_balls_do():
    """Kernels of balls do not travel: rows come to them, partition by partition."""
    parts, dense = objectives(trial(60), 20, 1, 15, loss="huber", lambda_=1e-2)

    tilt = balls(parts.tilt, 60)
    for find in (
        lambda o: certified_minimum(o, lambda _: 1 / 0, 1e-30, tilt),
        lambda o: precise_minimum(o, np.zeros(4), 1e-25, tilt),
    ):
        found, expected = ([float(w) for w in find(o)] for o in (parts, dense))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


class Depth:
    """A term of a sum, which counts the additions that it went through."""

    def __init__(self, depth):
        self.depth = depth

    def __add__(self, other):
        return Depth(max(self.depth, other.depth) + 1)


@pytest.mark.parametrize("d", [1, 12])
def test_a_sum_goes_through_no_more_additions_than_stated(d):
    n = 70_001
    frame = pd.DataFrame(np.zeros((n, d)), columns=[f"x{i}" for i in range(d)]).assign(y=False)
    schema = {"bounds": {f"x{i}": (-1, 1) for i in range(d)}}
    for lengths in ((), (60_000, 1, 1), [700] * 100):
        rows, _ = both(frame, *lengths, text="y ~ .", schema=schema)
        (found,) = rows.fold(lambda x, y: (Depth(len(x)),))
        assert found.depth <= additions(n, d + 1)
        with threads(1):
            (found,) = rows.fold(lambda x, y: (Depth(len(x)),))
        assert found.depth <= additions(n, d + 1)


@pytest.mark.parametrize("parts", [1, 2, 7, 8, 9, 17, 65])
def test_no_partition_is_left_out_or_counted_twice(parts):
    rows, dense = both(clinic(3 * parts), *[3] * (parts - 1))

    def kernel(x, y):
        return len(x), x.sum(axis=0)

    with threads(1):
        here = rows.fold(kernel)
    for count, total in (rows.fold(kernel), here):
        assert count == 3 * parts
        np.testing.assert_allclose(total, dense.x.sum(axis=0), rtol=0, atol=1e-12)


ARRAYS = {
    "rows": lambda x, y: (da.from_array(y, chunks=70), da.from_array(x, chunks=(70, 3))),
    "other chunks": lambda x, y: (da.from_array(y, chunks=33), da.from_array(x, chunks=(70, 2))),
    "a column": lambda x, y: (da.from_array(y[:, None], chunks=50), da.from_array(x, chunks=50)),
    "unknown lengths": lambda x, y: tuple(
        a[a.sum(axis=tuple(range(1, a.ndim))) > -1e9]
        for a in (da.from_array(y, chunks=70), da.from_array(x, chunks=(70, 3)))
    ),
    "a series and a frame": lambda x, y: (
        dd.from_pandas(pd.Series(y), npartitions=3),
        dd.from_pandas(pd.DataFrame(x, columns=["X1", "X2", "X3"]), npartitions=3),
    ),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_are_read_as_in_memory(kind):
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (200, 3))
    y = (x[:, 0] + rng.standard_normal(200) > 0).astype(int)
    bounds = {f"X{i}": (-1, 1) for i in (1, 2, 3)}
    found = dplr(*ARRAYS[kind](x, y), bounds=bounds, levels={"y": [0, 1]})
    expected = dplr(y, x, bounds=bounds, levels={"y": [0, 1]})
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
    assert found.formula == expected.formula


def test_partitions_of_other_types_than_the_first_are_read_as_they_are():
    """Objects, categories in another order, whole numbers: each partition says what it holds."""
    frame = clinic(90)
    parts = [
        frame.iloc[:30].astype({"smoker": object}),
        frame.iloc[30:60].assign(
            smoker=pd.Categorical(frame["smoker"][30:60], categories=["yes", "no", "other"])
        ),
        frame.iloc[60:].astype({"age": "float32", "y": "int8", "dose": object}),
    ]
    meta = frame.iloc[:0].astype({"smoker": object})
    lazy = dd.from_delayed([dask.delayed(p) for p in parts], meta=meta, verify_meta=False)
    whole = pd.concat([frame.iloc[:60], frame.iloc[60:].astype({"age": "float32"})])
    expected = dplr(FORMULA, whole.astype({"age": float}), **SCHEMA)
    np.testing.assert_allclose(dplr(FORMULA, lazy, **SCHEMA).coef, expected.coef, atol=1e-9)


def test_nothing_is_read_to_plan_and_refuse():
    def read(part):
        raise AssertionError("a partition was read")

    frame = clinic(60)
    lazy = in_parts(frame, 20).map_partitions(read, meta=frame.iloc[:0])
    for text, error in (("y ~ nothing", FormulaError), ("y ~ scale(age)", SchemaError)):
        with pytest.raises(error):
            dplr(text, lazy, **SCHEMA)
    with pytest.raises(PrivateLRError, match="levels"):
        dplr(FORMULA, lazy, bounds=SCHEMA["bounds"], levels={"y": [0, 1]})
    with pytest.raises(PrivateLRError, match="lambda_"):
        dplr(FORMULA, lazy, lambda_=-1, **SCHEMA)


def test_records_are_counted_along_one_short_column(tmp_path):
    frame = clinic(60).assign(flag=True)
    frame.to_parquet(tmp_path / "a.parquet")
    lazy = dd.read_parquet(tmp_path / "a.parquet")
    _, table = read_dask_source(FORMULA, lazy, None)
    counted = []
    with Callback(posttask=lambda key, result, *_: counted.append(result)):
        assert len(table) == 60
        assert len(table) == 60
    read = [list(result.columns) for result in counted if isinstance(result, pd.DataFrame)]
    assert read == [["flag"]]
    chosen = table.parts(["age", "y"])[0].compute()
    assert list(chosen.columns) == ["age", "y"]


REFUSED = {
    "y is in memory": lambda f: (f["y"].to_numpy(), da.from_array(f[["age", "dose"]].to_numpy())),
    "partitions": lambda f: (
        dd.from_pandas(f["y"], npartitions=2),
        dd.from_pandas(f[["age"]], npartitions=3),
    ),
    "three dimensions": lambda f: (da.zeros((3, 3, 3)),),
    "a series": lambda f: ("y ~ x", dask.bag.from_sequence([1])),
    "delayed": lambda f: (dask.delayed(f),),
    "lengths": lambda f: (da.zeros(5, chunks=5), da.zeros((6, 2), chunks=6)),
    "lengths of frames": lambda f: (in_parts(f, 20)["y"], in_parts(f, 21)[["age", "dose"]]),
    "no rows": lambda f: (FORMULA, dd.from_pandas(f.iloc[:0], npartitions=1)),
    "twice": lambda f: (da.from_array(np.zeros((4, 2))), da.from_array(np.zeros((4, 2)))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_table_is_refused_in_one_sentence(case):
    import dask.bag  # noqa: F401

    with pytest.raises((SchemaError, FormulaError)) as caught:
        dplr(*REFUSED[case](clinic(50)), levels={"y": [0, 1]})
    assert str(caught.value).endswith(".")
    assert "memory" not in case or case in str(caught.value)


def changing(frame, change, after):
    """A frame in two partitions, the first of which is another from a reading on."""
    readings = []

    def read(part):
        if len(part) != 20:
            return part
        readings.append(1)
        return part if len(readings) <= after else change(part.copy())

    lazy = in_parts(frame, 20).map_partitions(read, meta=frame.iloc[:0])
    return lazy, readings


def unusable(part):
    part.iloc[7, part.columns.get_loc("age")] = np.nan
    return part


def values_in_other_places(part):
    return part.assign(age=part["age"].to_numpy()[::-1])


def swapped_columns(part):
    return part.assign(age=part["dose"].to_numpy() * 10, dose=part["age"].to_numpy() / 10)


CHANGES = [fewer, one_value, one_label, unusable, values_in_other_places, swapped_columns]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("after", [2, 6])
def test_data_that_change_between_passes_end_a_fit_in_the_next(change, after):
    """One reading counts the records; the first that follows says what the data are."""
    lazy, readings = changing(clinic(50), change, after)
    with pytest.raises(SchemaError, match="they changed while they were read") as told:
        dplr(FORMULA, lazy, spend="inference", **SCHEMA)
    assert not re.search(r"\d", str(told.value)), "nothing of how"
    assert len(readings) <= after + 2, "a solver that fails is followed by one of the package's own"


@pytest.mark.parametrize("rows", [1021, 2042, 2 * 1019, 3000])
@pytest.mark.parametrize("what", ["labels", "a column"])
def test_signs_that_change_everywhere_are_noticed(rows, what):
    """Of bits, a sign is the highest: an even number of them adds up to nothing."""
    rng = np.random.default_rng(2)
    x, y = rng.uniform(-1, 1, (rows, 4)), rng.choice([-1.0, 1.0], rows)
    other = x * [1, -1, 1, 1] if what == "a column" else x
    assert (checksum(x, y) != checksum(other, -y if what == "labels" else y)).all()


@pytest.mark.parametrize("apart", [1, 1009, 1013, 1019, 1021])
def test_records_that_change_places_are_noticed(apart):
    """Entries that are so many words apart share a lane of one of the two sums."""
    rng, order = np.random.default_rng(2), np.arange(3000)
    x, y = rng.uniform(-1, 1, (3000, 4)), np.ones(3000)
    y[5] = -1
    order[[5, 5 + apart]] = 5 + apart, 5
    assert (checksum(x, y) != checksum(x[order], y[order])).all()


def test_partitions_that_are_drawn_at_each_reading_are_refused_in_bounded_time():
    rng, calls = np.random.default_rng(0), []

    def read(part):
        calls.append(1)
        return part.assign(age=rng.uniform(18, 90, len(part)))

    lazy = in_parts(clinic(600), 200).map_partitions(read, meta=clinic(1).iloc[:0])
    with pytest.raises(SchemaError, match="changed"):
        dplr(FORMULA, lazy, **SCHEMA)
    assert len(calls) <= 2 * 5, "counted, read once, and then seen to be others"


@pytest.mark.parametrize(
    "options", [{"spend": "inference"}, {"do_scale": "private"}, {"by": "smoker"}], ids=str
)
def test_a_release_never_joins_two_tables(options):
    """Coefficients of one table, and what else it releases of another, would be of neither."""
    frame, refused = clinic(50), 0

    def fitted(data):
        return np.asarray(dplr("y ~ age + dose", data, **options, **SCHEMA).coef)

    lazy, readings = changing(frame, one_value, 10**9)
    tables = [fitted(lazy), fitted(one_value(frame.copy()))]
    for after in range(2, len(readings)):
        try:
            found = fitted(changing(frame, one_value, after)[0])
        except SchemaError:
            refused += 1
        else:
            assert min(np.abs(found - table).max() for table in tables) < 1e-9
    assert refused


def test_a_file_that_is_rewritten_with_the_same_length_is_noticed(tmp_path):
    frame, path = clinic(50), tmp_path / "a.parquet"
    frame.to_parquet(path)

    def rewriting(objective):
        value_and_gradient(objective, np.zeros(4))
        one_value(frame.copy()).to_parquet(path)
        return Newton()(objective)

    with pytest.raises(SchemaError, match="changed"):
        dplr(FORMULA, dd.read_parquet(path), solver=rewriting, **SCHEMA)


def test_records_come_in_the_same_order_or_are_kept():
    """After a shuffle partitions may hold the same records in any order."""
    for memory in (STREAMED, KEPT):
        lazy, _ = changing(clinic(50), lambda part: part.sample(frac=1, random_state=0), 2)
        with dask.config.set({"privatelr.memory": memory}):
            if memory == STREAMED:
                with pytest.raises(SchemaError, match=r"same order, as persist\(\)"):
                    dplr(FORMULA, lazy, **SCHEMA)
                continue
            found = dplr(FORMULA, lazy, **SCHEMA)
        np.testing.assert_allclose(found.coef, dplr(FORMULA, clinic(50), **SCHEMA).coef, atol=1e-9)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (300, 5), (5000, 3)])
def test_a_checksum_changes_with_any_entry(n, d):
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-1, 1, (n, d)), rng.choice([-1.0, 1.0], n)
    whole = checksum(x, y)
    assert (whole == checksum(x.copy(), y.copy())).all()
    for row in range(0, n, max(n // 40, 1)):
        other = y.copy()
        other[row] = 0
        assert (checksum(x, other) != whole).all()
        for column in range(d):
            other = x.copy()
            other[row, column] = np.nextafter(other[row, column], 2)
            assert (checksum(other, y) != whole).all()
            other = x.copy()
            other[[row, row - 1], column] = other[[row - 1, row], column]
            assert (checksum(other, y) != whole).all() or n == 1


def test_kernels_travel_without_the_data():
    """Some close over the objective, and so over its rows."""
    parts, _ = objectives(clinic(1000), 100, memory=KEPT)
    seen = []

    class Watching:
        n, d, radius = parts.rows.n, parts.rows.d, parts.rows.radius
        records = n
        offset_bound = parts.rows.offset_bound

        def fold(self, kernel):
            seen.append(len(cloudpickle.dumps(kernel)))
            return parts.rows.fold(kernel)

    watched = Objective(Watching(), parts.loss, parts.lambda_, parts.tilt)
    for fold in (value_and_gradient, hessian, mean_change, gradient_bound):
        fold(watched, np.zeros(4))
    direct = len(cloudpickle.dumps(lambda x, y: parts.rows.radius))
    assert max(*seen, direct) < 15_000 < parts.rows.n * parts.rows.d * 8
    left = pickle.loads(pickle.dumps(parts.rows))
    assert isinstance(left, RowFacts)
    assert left == RowFacts(1000, 4, parts.rows.radius, parts.rows.blocks, 0.0)


def test_names_of_tasks_say_nothing_of_the_data(monkeypatch):
    names, compute = [], dask.compute

    def spy(*nodes, **options):
        for node in nodes:
            names.extend(str(key) for key in node.__dask_graph__())
        return compute(*nodes, **options)

    rows, _ = both(clinic(50), 20)
    monkeypatch.setattr(dask, "compute", spy)
    for _ in range(2):
        rows.fold(lambda x, y: (x.sum(),))
    ours = [name for name in names if name.startswith("privatelr")]
    purposes = {re.sub(r"-?[0-9a-f]{32}.*", "", name) for name in ours}
    assert purposes <= {"privatelr-plan", "privatelr-kernel", "privatelr-fold"}
    assert len({name for name in ours if "kernel" in name}) == 2, "named by chance, not by content"
