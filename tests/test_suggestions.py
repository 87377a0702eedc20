"""Suggested bounds and released levels: what they charge, read, print, and never tell."""

import pickle
import tomllib
import warnings

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FixedRandomness, replaced
from scipy import sparse

import privatelr as lr
import privatelr.planning.suggestions
from privatelr.audit.enumerated_choices import loss_of_outcomes
from privatelr.mechanisms.range_selection import candidate_ends, scores_of_low
from privatelr.planning.suggestions import _level_counts, _slots

pytestmark = pytest.mark.quick
OUTER = {"age": (0, 1000), "income": (0, 1e8)}
N = 3000


def people(n=N, seed=1):
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 90, n).round()
    return pd.DataFrame(
        {
            "age": age,
            "income": rng.lognormal(10, 1, n),
            "job": rng.choice(["worker", "clerk", "farmer"], n, p=[0.6, 0.3, 0.1]),
            "y": rng.random(n) < 1 / (1 + np.exp(-(age - 50) / 15)),
        }
    )


def suggest(frame, outer=OUTER, eps=2.0, **options):
    return lr.suggest_bounds(frame, outer, eps, **options)


def levels(frame, column="job", eps=1.0, delta=1e-6, **options):
    return lr.levels_from(frame, column, eps, delta, **options)


# -- what comes out -------------------------------------------------------------------------------


def test_the_ranges_are_those_of_most_records():
    frame, found = people(), suggest(people(), eps=4.0)
    for name, (low, high) in found.items():
        held = frame[name].between(low, high).mean()
        assert held > 0.9
        assert high < OUTER[name][1] / 5


def test_suggestions_fit_into_a_fit_and_beside_other_declarations():
    frame = people()
    found, jobs = suggest(frame, eps=4.0), levels(frame)
    fit = lr.dplr("y ~ age + income + job", frame, bounds=found, levels=jobs)
    assert fit.spec.variables["age"].bounds == found["age"]
    assert fit.spec.variables["job"].levels == jobs["job"]
    merged = {**found, "income": (0, 1)}
    assert lr.dplr("y ~ age + income", frame, bounds=merged).spec.variables["income"].bounds == (
        0,
        1,
    )


def test_a_schema_file_holds_the_same(tmp_path):
    path = tmp_path / "x.toml"
    found = lr.suggest_bounds({'a b\t"é': np.linspace(-1, 1, 500)}, {'a b\t"é': (-5, 5)}, 2.0)
    path.write_text(found.to_toml(), encoding="utf-8")
    assert lr.load_schema(path)["bounds"] == dict(found)
    for column in (["x", 'q"\\\x7f'] * 300, [1, 2] * 300, [1.5, 2.0] * 300):
        path.write_text(levels({"job": column}).to_toml(), encoding="utf-8")
        assert tuple(lr.load_schema(path)["levels"]["job"]) == levels({"job": column})["job"]
    truths = levels({"job": np.array([True, False] * 300)})
    assert tomllib.loads(truths.to_toml())["levels"]["job"] == [False, True]


def test_rare_levels_stay_untold_and_order_is_that_of_the_levels():
    column = ["zebra"] * 500 + ["ant"] * 500 + ["only one"]
    assert levels({"job": column})["job"] == ("ant", "zebra")
    assert levels({"job": column[::-1]})["job"] == ("ant", "zebra")
    assert levels({"job": ["only one"] * 2 + [None] * 50}, delta=1e-8)["job"] == ()


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ([True, 1, 1.0, "1"] * 100, (1, "1")),
        ([1.0, True, "1", 1] * 100, (1, "1")),
        (np.array([True, False] * 200), (False, True)),
        (np.array([0.0, -0.0, 2.5, np.nan, np.inf] * 100), (0, 2.5)),
        (pd.Categorical(["b", "a"] * 200, categories=["c", "b", "a"]), ("a", "b")),
        (pd.array([3, None, 2] * 100, dtype="Int64"), (2, 3)),
        (pd.array([True, None] * 200, dtype="boolean"), (True,)),
        (pd.array([True, False] * 200, dtype="bool[pyarrow]"), (False, True)),
        (pd.Categorical([True, False] * 200), (False, True)),
        ([object(), b"x", ("a",), None] * 100, ()),
    ],
)
def test_equal_values_are_one_level_however_they_are_spelled(column, told):
    found = levels({"job": column})["job"]
    assert found == told
    assert [*map(type, found)] == [*map(type, told)]


WHOLE = 2**53 + 1


@pytest.mark.parametrize(
    ("usual", "odd", "told"),
    [
        (1e16, 10**16, 1e16),
        (10**16, 1e16, 1e16),
        (WHOLE, float(WHOLE), float(WHOLE)),
        (7.0, 7, 7),
        (1, True, 1),
        (1e300, 10**400, 1e300),
    ],
)
def test_a_level_is_spelled_alike_whichever_record_comes_first(usual, odd, told):
    for column in ([usual] * 399 + [odd], [odd] + [usual] * 399, [usual] * 400):
        (found,) = levels({"job": np.array(column, dtype=object)})["job"]
        assert (found, type(found)) == (told, type(told))


@pytest.mark.parametrize(
    ("dtype", "value", "told"),
    [("int64", WHOLE, float(WHOLE)), ("int64", 7, 7), ("bool", True, True)],
)
def test_one_missing_cell_of_a_partition_respells_no_level(dtype, value, told):
    dask = pytest.importorskip("dask.dataframe")
    whole = pd.DataFrame({"job": np.full(200, value, dtype=dtype)})
    gap = {"int64": "float64", "bool": "object"}[dtype]  # as pandas reads a column with a gap
    gapped = whole.astype(gap).where(np.arange(200)[:, None] > 0)
    for parts in ([whole, whole], [gapped, whole], [gapped, gapped]):
        frame = dask.from_map(pd.DataFrame, parts, meta=whole.iloc[:0])
        (found,) = levels(frame)["job"]
        assert (found, type(found)) == (told, type(told))


# -- what is charged ------------------------------------------------------------------------------


def test_a_ledger_is_charged_before_the_data_is_read(monkeypatch):
    ledger = lr.Ledger(3.0, 1e-5)
    with ledger:
        suggest(people(), eps=1.0)
    found = levels(people(), ledger=ledger)
    assert [entry.guarantee for entry in ledger.entries] == [
        lr.PureDP(1.0),
        lr.ApproxDP(1.0, 1e-6),
    ]
    assert found.entry == ledger.entries[1]
    assert "age" in ledger.entries[0].label
    assert "job" in ledger.entries[1].label

    def read(*_, **__):
        raise AssertionError("the data is read")

    monkeypatch.setattr(privatelr.planning.suggestions, "read_variable", read)
    for call in (suggest, levels):
        with pytest.raises(lr.GuaranteeError, match="ledger: "):
            call(people(), ledger=lr.Ledger(0.5, 1e-7))
        spent = lr.Ledger(5.0, 1e-5)
        with pytest.raises(AssertionError):
            call(people(), ledger=spent)
        assert len(spent.entries) == 1  # a failure afterwards takes no charge back


@pytest.mark.parametrize("eps", [lr.ZCDP(0.5), lr.ApproxDP(2.0, 1e-6), lr.PureDP(2.0)])
def test_a_guarantee_is_a_price(eps):
    ledger = lr.Ledger(20.0, 1e-5)
    found = suggest(people(), eps=eps, ledger=ledger)
    assert found.guarantee == eps == ledger.entries[0].guarantee
    (event,) = ledger.entries[0].events
    assert event.times == 4


# -- what is refused, by public facts -------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda f: suggest(f, {}), lr.SchemaError, "outer range for each column"),
        (lambda f: suggest(f, {"agee": (0, 1)}), lr.SchemaError, "did you mean 'age'"),
        (lambda f: suggest(f, {"age": (1, 0)}), lr.SchemaError, "lo < hi"),
        (lambda f: suggest(f, eps=0), lr.GuaranteeError, "eps takes a number from"),
        (lambda f: suggest(f, eps=lr.NonPrivate()), lr.GuaranteeError, "eps takes a number"),
        (lambda f: suggest(f, eps=0.001), lr.GuaranteeError, "mostly noise"),
        (lambda f: suggest(f.iloc[:0]), lr.SchemaError, "empty"),
        (lambda f: suggest(sparse.eye_array(9)), lr.SchemaError, "has no names"),
        (lambda f: suggest(f.assign(age=f["age"].astype("category"))), lr.SchemaError, "drop"),
        (lambda f: suggest(f, ledger=7), lr.ArgumentError, "ledger takes"),
        (lambda f: lr.suggest_bounds(f, limits=OUTER, eps=1), lr.ArgumentError, "mean bounds"),
        (lambda f: levels(f, delta=0), lr.GuaranteeError, "no level could be"),
        (lambda f: levels(f, eps=lr.ZCDP(1.0), delta=0), lr.GuaranteeError, r"ApproxDP\(0.1, 1e-8"),
        (lambda f: suggest(f, person="who"), lr.SchemaError, "person='who'"),
        (lambda f: levels(f, person=3), lr.SchemaError, "person=3"),
        (lambda f: levels(f, delta=1e-3), lr.GuaranteeError, "below 1/n"),
        (lambda f: levels(f, "jobs"), lr.SchemaError, "did you mean 'job'"),
        (lambda f: levels(f.assign(job=pd.Timestamp(0))), lr.SchemaError, "has the type"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call(people())


# -- what is read ---------------------------------------------------------------------------------

TABLES = {
    "mapping": lambda frame: {name: frame[name].to_numpy() for name in frame},
    "lists": lambda frame: {name: frame[name].tolist() for name in frame},
    "objects": lambda frame: frame.astype(object),
    "arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "dask": lambda frame: pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3),
}


@pytest.mark.parametrize("name", TABLES)
def test_all_tables_give_the_same(monkeypatch, name):
    monkeypatch.setattr(privatelr.planning.suggestions, "SystemRandomness", FixedRandomness)
    frame, other = people(), TABLES[name](people())
    assert dict(suggest(other)) == dict(suggest(frame))
    assert levels(other)["job"] == levels(frame)["job"]


ODD = [{"age": np.nan}, {"age": np.inf}, {"age": 1e308}, {"job": "a secret"}, {"job": None}]


@pytest.mark.parametrize("values", ODD, ids=str)
@pytest.mark.parametrize("kind", ["numbers", "objects"])
def test_one_odd_record_shows_nowhere(monkeypatch, capfd, values, kind):
    """Under one draw a record may change ends and levels, and nothing else that is seen."""
    monkeypatch.setattr(privatelr.planning.suggestions, "SystemRandomness", FixedRandomness)
    frame, seen = people(), []
    for table in (frame, replaced(frame, 0, **values)):
        table = table.astype(object) if kind == "objects" else table
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found, jobs = suggest(table), levels(table)
        numbers = (found.calibration, found.guarantee, list(found), jobs.calibration)
        seen.append((numbers, [str(one.message) for one in caught], capfd.readouterr()))
        assert "secret" not in str(jobs) + repr(pickle.dumps(jobs))
    assert seen[0] == seen[1]


def test_nothing_of_the_data_is_kept():
    mark = 61.12345678901234
    frame = replaced(people(), 0, age=mark, job="a mark")
    for found in (suggest(frame), levels(frame)):
        stored = pickle.dumps(found)
        assert b"a mark" not in stored
        assert np.float64(mark).tobytes() not in stored
        assert np.float64(mark).tobytes()[::-1] not in stored


def test_missing_values_are_beyond_neither_end():
    """The whole way from a table to scores: a value that disappears costs as one that moves."""
    ends = {"age": candidate_ends(0, 100)}
    variables = {"age": privatelr.design.Variable("age", "numeric", (0, 100))}

    def scores(values, beyond=2):
        batch = privatelr.sources.as_batch({"age": values})
        return scores_of_low(_slots(variables, ends, batch)["age"], beyond)

    first = scores([30.0, 40.0, 50.0, 60.0])
    for value in (None, np.nan, np.inf, "text", 10.0, 200.0, -7.0):
        change = scores([30.0, 40.0, value, 60.0]) - first
        assert np.ptp(change) <= 1
        logs = [score - np.logaddexp.reduce(score) for score in (first, first + change)]
        assert loss_of_outcomes(*logs, lr.PureDP(1.0)) <= 1


def test_one_record_moves_two_counts_of_levels_by_one():
    frame = people(50)
    first = _level_counts("job", privatelr.sources.as_batch(frame))
    for value in ("worker", "new", None, 7, np.nan):
        other = _level_counts("job", privatelr.sources.as_batch(replaced(frame, 0, job=value)))
        moved = {level: other[level] - first[level] for level in {*first, *other}}
        moves = sorted(move for move in moved.values() if move)
        assert moves in ([], [-1], [-1, 1])


# -- persons -----------------------------------------------------------------------------------


def many(times=3, m=N):
    """Persons with so many equal records each, or one more."""
    one = people(m).assign(who=np.arange(m))
    again = one[one["who"] % 2 == 0]
    return pd.concat([*[one] * times, again]).sample(frac=1.0, random_state=1)


@pytest.mark.parametrize("call", [suggest, levels])
def test_records_of_a_person_count_as_one(call, monkeypatch):
    """Persons with one record each are as records are, and repeating a record changes nothing."""
    monkeypatch.setattr(privatelr.planning.suggestions, "SystemRandomness", FixedRandomness)
    plain = call(people())
    found = call(many(), person="who")
    assert dict(found) == dict(plain)
    assert dict(call(many(1).drop_duplicates(), person="who")) == dict(plain)
    assert found.guarantee.neighbours is lr.REPLACE_PERSON
    assert f"all records of one of m = {N} persons" in " ".join(str(found).split())
    assert f"{len(many())}" not in str(found)


@pytest.mark.parametrize("call", [suggest, levels])
def test_a_ledger_about_persons_is_charged(call):
    ledger = lr.Ledger(5.0, 1e-5, neighbours="person")
    call(many(), person="who", ledger=ledger)
    assert ledger.entries[0].guarantee.neighbours is lr.REPLACE_PERSON
    with pytest.raises(lr.GuaranteeError):
        call(many(), ledger=ledger)


def test_counts_of_levels_are_of_persons():
    """Neighbours replace all records of one person: two counts change, and each by one."""
    frame = many(3, 50)
    counts = {}
    for job in (["farmer"] * 200, ["clerk", "worker", "astronaut"], ["astronaut"], []):
        rows = people(max(len(job), 1)).assign(who=7)[: len(job)].assign(job=job)
        table = pd.concat([frame[frame["who"] != 7], rows]) if job else frame[frame["who"] != 7]
        owned = privatelr.planning.suggestions._read_persons(
            table, privatelr.planning.suggestions._read_table(table), "who"
        )
        counts[len(job)] = privatelr.planning.suggestions._counts_of_persons("job", owned)
        assert sum(counts[len(job)].values()) == 49 + bool(job)
    for many_jobs in (1, 3, 200):
        changed = counts[many_jobs] - counts[0]
        assert sum(changed.values()) == 1
        assert not counts[0] - counts[many_jobs]
    assert counts[3]["astronaut"] == 1  # the least of three levels with as many records


def test_one_person_shows_nowhere():
    """Errors and pages have the number of persons, and not that of records."""
    few = many(40, 4)
    with pytest.raises(lr.GuaranteeError, match="m = 4: a range takes at least 5 persons"):
        suggest(few, person="who")
    with pytest.raises(lr.GuaranteeError, match=r"at m = 30 .* mostly noise"):
        suggest(many(40, 30), person="who", eps=0.01)


@pytest.mark.parametrize("call", [suggest, levels])
def test_persons_in_a_dask_frame_are_refused(call):
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(lr.ArgumentError, match="Dask"):
        call(dask.from_pandas(many(1), npartitions=2), person="who")
