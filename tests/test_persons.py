"""Fits to persons with several records: who they are, how much they count, what stays unseen."""

import copy
import datetime
import json
import pickle
import re
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as over
from hypothesis import settings
from hypothesis import strategies as st
from scipy import optimize, sparse

from privatelr import (
    ArgumentError,
    FormulaError,
    GuaranteeError,
    PureDP,
    ReleaseFileError,
    SchemaError,
    compare,
    dplpsvm,
    dplr,
    dpsimplex,
    dpsvm,
    load,
)
from privatelr.audit import privacy_loss
from privatelr.call_data import read_data
from privatelr.design import shares_of, with_shares
from privatelr.design.scaling import column_groups
from privatelr.formula import Person
from privatelr.mechanisms import Problem
from privatelr.mechanisms.perturbation import mean_moments
from privatelr.mechanisms.stages.histogram import (
    L1_SENSITIVITY,
    L2_SENSITIVITY,
    counts_of_shares,
    filled_up,
    score_counts,
)
from privatelr.mechanisms.stages.matrices import calibrate_moments, moments_sensitivity
from privatelr.mechanisms.stages.scale import (
    ScaleFacts,
    calibrate_scale,
    mean_squares,
    scale_blocks,
    scale_sensitivity,
)
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import grams_of_persons
from privatelr.privacy import REPLACE_PERSON, ZCDP
from privatelr.privacy.accounting import Ledger
from privatelr.results.release_files import content_hash, release_document, restore
from privatelr.sources import as_batch, declare_schema
from privatelr.types import ColumnGroup

BOUNDS = {"x": (0.0, 1.0), "z": (-2.0, 2.0), "y": (0, 1)}
PERSON = {"bounds": BOUNDS, "person": "patient"}
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
KINDS = [object, "str", "string[python]", "string[pyarrow]", "category", pd.ArrowDtype(pa.string())]
KINDS += [pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))]


def patients(sizes=(3, 1, 2, 5, 1, 1, 4, 2), seed=0):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    columns = {"y": rng.integers(2, size=n), "x": rng.uniform(size=n), "z": rng.normal(size=n)}
    return pd.DataFrame(columns | {"patient": np.repeat(np.arange(len(sizes)), sizes)})


def eighty(places):
    """A factor of so many levels that its rows are kept without their zeros."""
    return pd.Categorical.from_codes(places, categories=[f"k{i}" for i in range(80)])


def names(number, *texts):
    """Whether a text has this number, and not only its digits in another one."""
    return any(re.search(rf"(?<![\d.]){number}(?!\d)", text) for text in texts)


def rows_of(frame, formula="y ~ x + z + person(patient)"):
    source = read_data(formula, frame, None)
    spec = source.plan(declare_schema(BOUNDS, None, None, None))
    return source.rows(spec, bar=False)[0], len(source)


def test_persons_of_one_record_are_fitted_as_records_are():
    """To the last bit: with the same noise, the same coefficients."""
    frame = patients([1] * 60)
    options = {"bounds": BOUNDS, "seed": 3, "do_scale": False}
    with pytest.warns(UserWarning, match="seed"):
        alone = dplr("y ~ x + z", frame, 1, **options)
    with pytest.warns(UserWarning, match="seed"):
        person = dplr("y ~ x + z", frame, 1, person="patient", **options)
    np.testing.assert_array_equal(alone.coef, person.coef)
    assert alone.calibration.noise == person.calibration.noise


@pytest.mark.parametrize("most", [1, 3, 100])
def test_the_objective_is_the_mean_over_persons_of_their_means(most):
    frame = patients()
    fitted = dplr("y ~ x + z", frame, 0, lambda_=0.1, records_per_person=most, **PERSON)
    sizes = frame.groupby("patient").y.transform("size").to_numpy()
    share = 1 / np.maximum(sizes, most)
    x = np.column_stack([np.full(len(frame), 0.5), 2 * frame.x - 1, np.clip(frame.z, -2, 2) / 2])
    signs = 2 * frame.y.to_numpy() - 1

    def mean(w):
        return share @ np.logaddexp(0, -signs * (x @ w)) / 8 + 0.05 * w @ w

    expected = optimize.minimize(mean, np.zeros(3), tol=1e-12).x
    scaled = fitted.release.coef
    np.testing.assert_allclose(scaled, expected, atol=1e-5)
    assert fitted.nobs == 8


def test_the_same_records_again_change_nothing():
    frame = patients([1] * 40)
    often = frame.loc[np.repeat(frame.index, frame.index % 5 + 1)]
    once, again = (dplr("y ~ x + z", f, 0, lambda_=0.01, **PERSON).coef for f in (frame, often))
    np.testing.assert_allclose(once, again, atol=1e-7)


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("sparse", [False, True])
def test_a_person_moves_a_gradient_by_at_most_the_row_bound(loss, sparse):
    """Whatever the number of records is, and however long they are (theory.md#persons)."""
    frame, rng = patients(), np.random.default_rng(5)
    frame["x"], frame["z"] = 1.0, 2.0
    frame["y"] = 1
    if sparse:
        frame["k"] = eighty(rng.integers(80, size=len(frame)))
    formula = "y ~ x + z + person(patient, 2)" + (" + k" if sparse else "")
    rows, m = rows_of(frame, formula)
    assert m == rows.n == 8
    assert rows.records == len(frame)
    slope, share = LOSSES[loss].slope, 1 / rows.y**2
    table = np.asarray(rows.x.todense()) if sparse else rows.x
    for w in 30 * rng.standard_normal((20, rows.d)):
        margins = rows.y * (table @ w)
        pulls = (slope(margins) * rows.y * np.minimum(share, 1))[:, None] * table
        for person in range(8):
            mine = pulls[frame.patient == person].sum(axis=0)
            assert np.linalg.norm(mine) <= rows.radius * LOSSES[loss].slope_bound
    counted = [float(np.minimum(share, 1)[frame.patient == person].sum()) for person in range(8)]
    assert max(counted) <= 1
    assert min(counted) == pytest.approx(0.5)
    assert max(counted) == pytest.approx(1)


def test_replacing_a_person_leaves_what_the_others_count():
    frame = patients()
    gone = frame[frame.patient != 3]
    instead = pd.DataFrame({"y": 1, "x": 0.1, "z": 0.3, "patient": "new"}, index=range(17))
    before, after = (
        read_data("y ~ x + z + person(patient)", table, None)
        for table in (frame, pd.concat([gone, instead]))
    )
    assert len(before) == len(after)
    np.testing.assert_array_equal(
        before.batch.shares[(frame.patient != 3).to_numpy()], after.batch.shares[: len(gone)]
    )


class Hostile:
    """A value whose own code must never run."""

    def __hash__(self):
        raise RuntimeError

    def __eq__(self, other):
        raise RuntimeError


BYTES = [None, pa.py_buffer(np.arange(4, dtype=np.int32)), pa.py_buffer(b"\xff\xfea")]
UNREADABLE = pd.Series(
    pa.Array.from_buffers(pa.string(), 3, BYTES), dtype=pd.ArrowDtype(pa.string())
)
"""Two texts that cannot be read, which are missing, and one that can."""
SHARED = [
    ([1, 1.0, True, 2, "1"], [3, 3, 3, 1, 1]),
    (
        [None, float("nan"), pd.NA, Hostile(), ["a"], (1,), datetime.date(2020, 1, 1), 4],
        [7] * 7 + [1],
    ),
    (np.array([0.0, -0.0, np.nan, np.nan, np.inf]), [2, 2, 2, 2, 1]),
    (pd.Series(["a", None, "b", "a"], dtype="string"), [2, 1, 1, 2]),
    (pd.Categorical(["a", None, "b", "a"]), [2, 1, 1, 2]),
    (pd.Series([5, None, 5, 6], dtype="Int64"), [2, 1, 2, 1]),
    (np.array([2**53, 2**53 + 1]), [1, 1]),
    (pl.Series([1, None, 1, None]), [2, 2, 2, 2]),
    (pl.Series(["a", "b", None]), [1, 1, 1]),
    (pd.Series(["a", None, "b", "a"], dtype="string[pyarrow]"), [2, 1, 1, 2]),
    (UNREADABLE, [2, 2, 1]),
    (pd.Series(["\ud800", "a", "\ud800", None], dtype=object), [2, 1, 2, 1]),
]


@pytest.mark.parametrize(("values", "sizes"), SHARED, ids=range(len(SHARED)))
def test_values_are_compared_for_equality_and_missing_ones_are_one_person(values, sizes):
    n = len(sizes)
    frame = {"y": np.arange(n) % 2, "x": np.linspace(0, 1, n), "patient": values}
    if isinstance(values, list):
        values = pd.Series(values, dtype=object)
        frame["patient"] = values
    source = read_data("y ~ x + person(patient)", frame, None)
    np.testing.assert_allclose(source.batch.shares, 1 / np.array(sizes), rtol=1e-11)
    assert len(source) == round(sum(1 / np.array(sizes)))
    assert np.isfinite(
        dplr("y ~ x", frame, 1, bounds={"x": (0, 1), "y": (0, 1)}, person="patient").coef
    ).all()


@settings(max_examples=30)
@over(st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=2), min_size=1))
def test_texts_are_the_same_persons_however_they_are_stored(texts):
    """Those that Python calls equal, and all that are missing; in every order of their records."""
    expected = [{i for i, other in enumerate(texts) if other == text} for text in texts]
    columns = [pd.Series(texts, dtype=kind) for kind in KINDS]
    chunked = pa.chunked_array([pa.array([text], pa.large_string()) for text in texts])
    for column in [*columns, pd.Series(chunked, dtype=pd.ArrowDtype(chunked.type))]:
        m, owners, _ = with_shares(as_batch({"patient": column}), Person("patient"))
        assert [set(np.flatnonzero(owners == owner)) for owner in owners] == expected
        assert m == len(set(texts)) == owners.max() + 1


WHOLE = [np.int8, np.uint8, np.int64, np.uint64]
"""Whole numbers of one byte, whose differences leave it, and those whose ends are far away."""


@over(
    st.sampled_from(WHOLE),
    st.booleans(),
    st.lists(st.integers(0, 255), min_size=1, max_size=9),
    st.sampled_from([1, 65]),
    st.booleans(),
)
def test_whole_numbers_are_persons_wherever_they_lie(kind, from_below, places, times, has_ends):
    """Near together, where they number persons themselves, or as far apart as they can be."""
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    cells = [low + one if from_below else high - one for one in places] * times
    cells += [low, high] if has_ends else []
    m, owners, _ = with_shares(as_batch({"patient": np.array(cells, kind)}), Person("patient"))
    assert m == len(set(cells)) == len(set(zip(cells, owners.tolist(), strict=True)))
    assert set(owners) == set(range(m))


# -- what may be seen -------------------------------------------------------------------------


def seen(fitted):
    """Everything public about a fit but the estimates, which differ."""
    pages = [str(fitted.calibration), repr(fitted.calibration), fitted.calibration._repr_html_()]
    return [*pages, fitted.calibration, fitted.guarantee, str(fitted.spec.formula)]


def test_the_number_of_records_is_nowhere():
    """Two tables of as many persons, with 19 and with 5,021 records."""
    few, many = patients(), patients((3, 1, 2, 5000, 1, 1, 4, 9))
    ledger = Ledger(9.0, neighbours="person")
    options = {"ledger": ledger, "verbose": 1, "lambda_": 1.0, **PERSON}
    first, second = (dplr("y ~ x + z", frame, 1, **options) for frame in (few, many))
    assert seen(first) == seen(second)
    for fitted in (first, second):
        text = str(fitted) + repr(fitted) + fitted._repr_html_() + str(fitted.summary())
        assert "one of m = 8 persons" in " ".join(text.split())
        assert not any(str(len(frame)) in text for frame in (many,))
    assert ledger.entries[0] == ledger.entries[1]
    assert b"5021" not in pickle.dumps(second.calibration)


def test_errors_do_not_depend_on_the_number_of_records():
    said = []
    for frame in (patients(), patients((3, 1, 2, 5000, 1, 1, 4, 9))):
        with pytest.raises(GuaranteeError) as caught:
            dplr("y ~ x + z", frame, 1, lambda_=1e-9, on_small_lambda="keep", **PERSON)
        said.append(str(caught.value))
        with pytest.raises(GuaranteeError) as caught:
            dplr("y ~ x + z", frame, 2, ledger=Ledger(1, neighbours="person"), **PERSON)
        said.append(str(caught.value))
    assert said[:2] == said[2:]


# -- guarantees -------------------------------------------------------------------------------


def test_a_delta_and_a_rho_take_laplace_noise():
    for price in ({"eps": 1, "delta": 1e-6}, {"eps": ZCDP(0.1, REPLACE_PERSON)}):
        fitted = dplr("y ~ x + z", patients([2] * 500), **price, **PERSON)
        assert "Laplace" in fitted.calibration.noise.title
        assert fitted.guarantee.neighbours is REPLACE_PERSON
        output = dplr("y ~ x + z", patients([2] * 500), op=False, **price, **PERSON)
        assert output.guarantee == fitted.guarantee


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"eps": PureDP(1)}, GuaranteeError, "which are 'person'; the one that is given is about"),
        ({"eps": ZCDP(0.1)}, GuaranteeError, r"write ZCDP\(0.1, neighbours='person'\)\."),
        ({"person": "y"}, FormulaError, "'y' is the response, and persons are told apart by"),
        (
            {"person": None, "records_per_person": 1, "eps": PureDP(0.5, "person")},
            GuaranteeError,
            "give the fit person=, the column that tells persons apart",
        ),
        ({"ledger": Ledger(5)}, GuaranteeError, "'person' and not 'replace'"),
        ({"records_per_person": 0}, FormulaError, "records_per_person=0: .* from 1 to 1000000"),
        ({"records_per_person": 2.0}, FormulaError, "records_per_person=2.0"),
        ({"records_per_person": True}, FormulaError, "records_per_person=True"),
        ({"person": 3}, FormulaError, "person=3: person takes the name of a column"),
        ({"person": "pateint"}, FormulaError, "the nearest name is 'patient'"),
        ({"person": None, "records_per_person": 2}, FormulaError, "beside person=; a term"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(options, error, words):
    given = {"eps": 1, **PERSON, **options}
    with pytest.raises(error, match=words):
        dplr("y ~ x + z", patients(), **given)


def test_whoever_reads_rows_by_themselves_refuses_persons():
    """Where nobody groups records, each would count as much as a person."""
    dask = pytest.importorskip("dask.dataframe")
    formula, frame = "y ~ x + z + person(patient)", patients()
    with pytest.raises(ArgumentError, match="several partitions"):  # tests/test_dask_persons.py
        dplr(formula, dask.from_pandas(frame, npartitions=2), 1, bounds=BOUNDS)
    for fitting in (dplpsvm, dpsimplex):
        with pytest.raises(FormulaError, match="goes with dplr and dpsvm"):
            fitting(formula, frame, 1, bounds=BOUNDS)
    fitted = dplr(formula, frame, 1, bounds=BOUNDS)
    with pytest.raises(ArgumentError, match="takes what is about records"):
        privacy_loss(fitted, frame, frame)
    from scipy.sparse import csr_array

    with pytest.raises(FormulaError, match="columns of a sparse matrix have no names"):
        dplr(frame.y, csr_array(np.eye(len(frame))), 1, person="patient", levels={"y": [0, 1]})


def test_no_error_names_the_number_of_records():
    """Lengths that differ are named where n is public."""
    frame = patients()
    with pytest.raises(SchemaError, match="their lengths differ") as caught:
        dplr(frame.y[:7], frame[["x", "patient"]], 1, **PERSON)
    assert not re.search(r"\d", str(caught.value))
    with pytest.raises(SchemaError) as caught:
        dplr("y ~ x", frame.x.to_numpy(), 1, **PERSON)
    assert "19" not in str(caught.value)


# -- inference --------------------------------------------------------------------------------


def sandwich(frame, w, most):
    """H and S by hand, with one gradient for each person."""
    x = np.column_stack([np.full(len(frame), 0.5), 2 * frame.x - 1, np.clip(frame.z, -2, 2) / 2])
    share = 1 / np.maximum(frame.groupby("patient").y.transform("size").to_numpy(), most)
    p = 1 / (1 + np.exp(-x @ w))
    m = frame.patient.nunique()
    pulls = pd.DataFrame(((p - frame.y) * share).to_numpy()[:, None] * x)
    scores = pulls.groupby(frame.patient.to_numpy()).sum().to_numpy()
    return (x.T * (share * p * (1 - p))) @ x / m, scores.T @ scores / m


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("shuffled", [False, True])
def test_matrices_have_one_gradient_for_each_person(most, shuffled):
    """The cluster-robust sandwich (theory.md#moments), in any order of the records."""
    frame = patients((3, 1, 2, 5, 1, 1, 4, 2) * 30, seed=2)
    if shuffled:
        frame = frame.sample(frac=1, random_state=1)
    given = {"lambda_": 1e-3, "records_per_person": most, "spend": "inference"}
    fitted = dplr("y ~ x + z", frame, 0, **given, **PERSON)
    moments = fitted.release.moments
    curvature, scores = sandwich(frame, fitted.release.coef, most)
    np.testing.assert_allclose(moments.curvature, curvature, rtol=1e-9)
    np.testing.assert_allclose(moments.scores, scores, rtol=1e-9, atol=1e-15)


def test_rows_without_their_zeros_have_the_same_sums():
    frame, rng = patients((3, 1, 2, 5, 1, 1, 4, 2) * 30), np.random.default_rng(5)
    frame["k"] = eighty(rng.integers(80, size=len(frame)))
    rows = rows_of(frame, "y ~ x + z + k + person(patient)")[0]
    weights = rng.uniform(size=len(frame))
    by_label = dict(zip(rows.y.tolist(), weights, strict=True))
    assert sparse.issparse(rows.x)

    def weigh(x, y):
        return np.square(y), np.array([by_label[label] for label in y.tolist()])

    weights[:] = weigh(None, rows.y)[1]
    pulls = pd.DataFrame(rows.x.toarray() * weights[:, None])
    pulls = pulls.groupby(frame.patient.to_numpy()).sum().to_numpy()
    curvature, scores = grams_of_persons(rows, weigh, 1e9)
    x = rows.x.toarray()
    np.testing.assert_allclose(curvature, (x.T * rows.y**2) @ x, atol=1e-12)
    np.testing.assert_allclose(scores, pulls.T @ pulls, atol=1e-12)
    most = float(np.linalg.norm(pulls, axis=1).max())
    held = grams_of_persons(rows, weigh, most / 100)[1]
    assert np.trace(held) <= rows.n * (most / 100) ** 2 * (1 + 1e-12)


def test_standard_errors_equal_those_of_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    frame = patients((4,) * 400, seed=4)
    fitted = dplr("y ~ x + z", frame, 0, lambda_=1e-7, spend="inference", **PERSON)
    frame["z"] = frame.z.clip(-2, 2)
    model = api.GLM(frame.y, api.add_constant(frame[["x", "z"]]), family=api.families.Binomial())
    groups = {"groups": frame.patient, "use_correction": False}
    theirs = model.fit(cov_type="cluster", cov_kwds=groups)
    np.testing.assert_allclose(fitted.bse.to_numpy(), theirs.bse.to_numpy(), rtol=1e-4)


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_a_person_moves_the_matrices_by_at_most_the_sensitivity(loss):
    """Persons with records at one end and at the other, replaced by others of as many kinds."""
    rng, worst = np.random.default_rng(8), 0.0
    rest = pd.DataFrame({"x": [0.2], "z": [0.3], "y": [1], "patient": [1]})
    for _ in range(100):
        sides, pair = rng.integers(2, size=(2, 2)), []
        w = rng.normal(size=3) * rng.choice([0.3, 1, 3])
        for side in range(2):
            k = int(rng.integers(1, 5))
            own = {"x": sides[side][[0] * k], "z": 4.0 * sides[side][[1] * k] - 2, "patient": 0}
            rows, m = rows_of(pd.concat([pd.DataFrame(own | {"y": rng.integers(2)}), rest]))
            facts = Problem(m, 3, LOSSES[loss], rows.radius, lambda_=0.1, persons=True)
            pair.append(mean_moments(rows, w, calibrate_moments(facts, PureDP(1, REPLACE_PERSON))))
        worst = max(worst, np.linalg.norm(pair[1] - pair[0]) / moments_sensitivity(facts))
    assert 0.6 < worst <= 1


PRICES = [{"eps": 1}, {"eps": 1, "delta": 1e-6}, {"eps": ZCDP(0.1, REPLACE_PERSON)}]


# -- scale ------------------------------------------------------------------------------------


def scale_of(frame, most=1, k=False, persons=True):
    """Rows before they are standardised, and noise for their moments, under rho."""
    text = f"y ~ x + z{' + k' if k else ''} + person(patient, {most})"
    source = read_data(text, frame, None)
    spec = source.plan(declare_schema(BOUNDS, None, None, None))
    facts = ScaleFacts(
        len(source), column_groups(spec, centred=not k), not k, 0.003, 0.25, persons=persons
    )
    return source.loose(spec, bar=False)[0], calibrate_scale(facts, ZCDP(0.5, REPLACE_PERSON))


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("k", [False, True], ids=["dense", "sparse"])
def test_the_scale_is_of_means_over_persons(most, k):
    """Each counts once, also with fewer records than records_per_person."""
    frame, rng = patients((3, 1, 2, 5, 1, 1, 4, 2) * 9), np.random.default_rng(3)
    frame = frame.sample(frac=1, random_state=2).reset_index(drop=True)
    frame["k"] = eighty(rng.integers(80, size=len(frame)))
    frame.loc[5, "x"] = np.nan
    loose, made = scale_of(frame, most, k)
    t = pd.DataFrame({"x": 2 * frame.x - 1, "z": frame.z.clip(-2, 2) / 2})
    t[frame.x.isna()] = 0.0
    means, squares = (each.groupby(frame.patient).mean().mean() for each in (t, t**2))
    found = mean_squares(loose, made)
    np.testing.assert_allclose(found[:2], means, rtol=1e-10)
    np.testing.assert_allclose(found[-2:], made.weight * squares, rtol=1e-10)


@pytest.mark.parametrize("k", [False, True], ids=["dense", "sparse"])
def test_no_person_moves_the_scale_further_than_a_record(k):
    """Persons with a record or several, at the corners of the bounds, or with missing values."""
    rng, worst, widest = np.random.default_rng(4), 0.0, 0.0
    rest = pd.DataFrame({"x": [0.2], "z": [0.3], "k": [5], "y": [1], "patient": [1]})
    for _ in range(60):
        pair = []
        for _ in range(2):
            size = int(rng.integers(1, 5))
            own = {
                name: rng.choice([low, high, np.nan], size) for name, (low, high) in BOUNDS.items()
            }
            own |= {"k": rng.integers(2, size=size), "y": 1, "patient": 0}
            table = pd.concat([pd.DataFrame(own), rest], ignore_index=True)
            table["k"] = eighty(table.k)
            loose, made = scale_of(table, int(rng.integers(1, 4)), k)
            pair.append(mean_squares(loose, made))
        change = np.abs(pair[1] - pair[0])
        worst = max(worst, np.linalg.norm(change) / scale_sensitivity(made.facts))
        box = [block.bound for block in scale_blocks(made.facts)]
        found = np.append(change[:2], change[-2:] / made.weight)  # of numbers, not of levels
        widest = max(widest, float((found / box).max()))
    assert 0.9 < worst <= 1
    assert 0.9 < widest <= 1


def test_what_sums_of_persons_lose_does_not_depend_on_the_number_of_records():
    """They may have any number, so that the bound is that of a memory."""
    of_records = ScaleFacts(10**6, (ColumnGroup(1, "number"),), True, 0.003)
    lost = scale_sensitivity(replace(of_records, persons=True)) - scale_sensitivity(of_records)
    assert lost > 1e-9
    assert lost < 1e-3 * scale_sensitivity(of_records)


def test_persons_of_one_record_have_the_scale_of_records():
    """With the same noise, up to what sums may lose."""
    frame = patients([1] * 3000)
    given = {"bounds": BOUNDS, "seed": 3, "do_scale": "private"}
    with pytest.warns(UserWarning, match="seed"):
        alone = dplr("y ~ x + z", frame, 1, **given)
    with pytest.warns(UserWarning, match="seed"):
        person = dplr("y ~ x + z", frame, 1, person="patient", **given)
    np.testing.assert_allclose(alone.coef, person.coef, rtol=1e-4)
    np.testing.assert_allclose(alone.scale.to_numpy()[:, 1:], person.scale.to_numpy()[:, 1:], 1e-4)


def test_matrices_beside_a_scale_are_held_to_what_a_person_may_add():
    """Each of a person's records alone would be held to the trace of one of a typical length."""
    fitted = dplr(
        "y ~ x + z", patients([2] * 9000), 5, spend="inference", do_scale="private", **PERSON
    )
    assert fitted.release.length > 1
    assert fitted.release.moments.calibration.typical is None


# -- counts of scores -------------------------------------------------------------------------

ROC = {"coefficients": 0.75, "roc": 0.25}


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("k", [False, True], ids=["dense", "sparse"])
def test_counts_of_scores_are_by_shares_and_add_up_to_the_persons(most, k):
    frame, rng = patients((3, 1, 2, 5, 1, 1, 4, 2) * 9), np.random.default_rng(3)
    frame["k"] = eighty(rng.integers(80, size=len(frame)))
    frame.loc[5, "x"] = np.nan
    text = f"y ~ x + z{' + k' if k else ''} + person(patient, {most})"
    rows, m = rows_of(frame, text)
    edges, w = np.linspace(-1, 1, 8), np.append([0.3, 1.0, -1.0], np.zeros(rows.d - 3))
    found = score_counts(rows, w, edges)
    share = 1 / np.maximum(frame.groupby("patient").y.transform("size").to_numpy(), most)
    cells = np.searchsorted(edges, np.asarray(rows.x @ w * np.abs(rows.y))) + 9 * frame.y
    cells[5] = 18
    expected = np.bincount(cells, share, minlength=19)
    np.testing.assert_allclose(found[:-1], expected[:-1], atol=1e-9)
    assert found.sum() == m == 72
    assert found[-1] >= share[5]


@over(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=40), min_size=1, max_size=30),
    st.integers(1, 50),
    st.data(),
)
def test_no_person_moves_the_counts_further_than_a_record(persons, most, data):
    """Exactly: sums of shares are not rounded."""
    other = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=90))

    def counts(cells):
        sizes = np.repeat([len(own) for own in cells], [len(own) for own in cells])
        shares, m = shares_of(sizes, most), len(cells)
        return filled_up(counts_of_shares(np.concatenate(cells), shares, 3, m), m)

    before, after = counts(persons), counts([other, *persons[1:]])
    change = after - before
    assert before.sum() == after.sum() == len(persons)
    assert change.sum() == 0
    assert np.abs(change).sum() <= L1_SENSITIVITY
    assert np.sum(change**2) <= L2_SENSITIVITY**2
    assert np.all(after >= 0)


EVERY_STAGE = {"scale": 0.1, "coefficients": 0.5, "inference": 0.3, "roc": 0.1}
BESIDE_SPARSE = {"scale": 0.1, "coefficients": 0.7, "roc": 0.2}


@pytest.mark.parametrize("price", PRICES, ids=["pure", "delta", "zcdp"])
@pytest.mark.parametrize("fitting", [dplr, dpsvm])
@pytest.mark.parametrize(
    ("formula", "spend"),
    [("y ~ x + z", EVERY_STAGE), ("y ~ x + z + k", BESIDE_SPARSE)],
    ids=["dense", "sparse"],
)
def test_every_promise_buys_every_stage(price, fitting, formula, spend, tmp_path):
    frame = patients([2, 1, 4] * 400)
    frame["k"] = eighty(np.arange(len(frame)) % 80)
    fitted = fitting(formula, frame, spend=spend, records_per_person=2, **price, **PERSON)
    assert fitted.guarantee.neighbours is REPLACE_PERSON
    assert fitted.release.scale.calibration.target.neighbours is REPLACE_PERSON
    assert fitted.roc.guarantee == fitted.guarantee
    assert fitted.roc.nobs == 1200
    fitted.save(tmp_path / "fit.json")
    again = load(tmp_path / "fit.json")
    pd.testing.assert_frame_equal(again.scale, fitted.scale)
    np.testing.assert_array_equal(again.predict(frame), fitted.predict(frame))
    assert again.roc.auc == fitted.roc.auc
    if "inference" in spend:
        assert np.isfinite(fitted.conf_int()).to_numpy().all()
        pd.testing.assert_frame_equal(again.conf_int(), fitted.conf_int())
        assert "scores by person" in " ".join(str(again).split())
    card = " ".join(fitted.card().split())
    assert "over all the records of 1200 persons" in card
    for page in (str(fitted), str(fitted.roc)):
        assert "one of m = 1200 persons" in " ".join(page.split())
    texts = card, str(fitted), str(fitted.roc), (tmp_path / "fit.json").read_text()
    assert not names(2800, *texts)


def test_a_curve_of_other_persons_is_paid_by_the_person():
    frame, others = patients([2, 1, 4] * 400), patients([1, 3] * 500, seed=7)
    fitted = dplr("y ~ x + z", frame, 1, records_per_person=2, **PERSON)
    ledger = Ledger(3.0, neighbours="person")
    found = fitted.private_roc(others, 1, ledger=ledger)
    assert found.guarantee == PureDP(1, REPLACE_PERSON) == ledger.entries[0].guarantee
    assert found.nobs == 1000
    assert "paid apart; both add up for a person" in " ".join(str(found).split())
    exact = dplr("y ~ x + z", frame, 0, records_per_person=2, lambda_=0.01, spend=ROC, **PERSON)
    near = exact.private_roc(frame, 1000)
    assert near.prevalence == pytest.approx(exact.roc.prevalence, abs=0.02)
    share = 1 / np.maximum(frame.groupby("patient").y.transform("size"), 2)
    assert exact.roc.prevalence == pytest.approx(float(frame.y @ share / share.sum()), abs=0.02)


def test_scale_and_curve_do_not_show_the_number_of_records():
    few, many = patients(), patients((3, 1, 2, 5000, 1, 1, 4, 9))
    spend = {"scale": 0.2, "coefficients": 0.4, "inference": 0.2, "roc": 0.2}
    given = {"lambda_": 1.0, "spend": spend, "verbose": 1, **PERSON}
    with pytest.warns(UserWarning, match="nearly all noise"):
        first, second = (dplr("y ~ x + z", frame, 1, **given) for frame in (few, many))
    assert first.release.scale.calibration == second.release.scale.calibration
    assert first.release.histogram.calibration == second.release.histogram.calibration
    texts = [str(second), second.card(), str(second.roc), str(second.scale)]
    assert not any("5021" in text for text in texts)
    assert b"5021" not in pickle.dumps(second.release)


# -- plans, and what is made of a fit -----------------------------------------------------------


def test_fits_about_persons_are_compared_with_such_fits_only():
    frame = patients([2] * 300)
    one, two = (dplr(f"y ~ {terms}", frame, 1, **PERSON) for terms in ("x", "x + z"))
    assert compare({"one": one, "two": two}).guarantee == PureDP(2, REPLACE_PERSON)
    by_record = dplr("y ~ x", frame, 1, bounds=BOUNDS)
    with pytest.raises(GuaranteeError, match="different neighbours"):
        compare({"one": one, "two": by_record})


def test_no_bootstrap_takes_records_of_a_person_for_independent():
    fitted = dplr("y ~ x + z", patients([2] * 300), 1, spend="inference", **PERSON)
    with pytest.raises(ArgumentError, match="does not simulate persons"):
        fitted.conf_int(method="bootstrap", covariates="uniform")


# -- files ------------------------------------------------------------------------------------


def test_a_file_says_that_neighbours_replace_a_person(tmp_path):
    fitted = dplr("y ~ x + z", patients(), 1, records_per_person=2, **PERSON)
    path = tmp_path / "fit.json"
    fitted.save(path)
    again = load(path)
    assert again.guarantee == fitted.guarantee == PureDP(1, REPLACE_PERSON)
    assert again.calibration == fitted.calibration
    assert again.spec.formula.person == fitted.spec.formula.person
    assert again.spec.formula.person.most == 2
    assert "one of m = 8 persons" in " ".join(str(again).split())
    many = dplr("y ~ x + z", patients((3, 1, 2, 5000, 1, 1, 4, 9)), 1, **PERSON)
    many.save(path, overwrite=True)
    assert not re.search(r"(?<![\w.])5021(?![\w.])", path.read_text())  # no number is all of it


@pytest.mark.parametrize(
    ("wrong", "right"),
    [('"REPLACE_PERSON"', '"REPLACE_ONE"'), (" + person(patient)", ""), ("person(", "weights(")],
)
def test_a_file_cannot_say_less_than_its_noise(tmp_path, wrong, right):
    """Who hashes a changed file again is refused as well."""
    fitted = dplr("y ~ x + z", patients(), 1, **PERSON)
    text = json.dumps(release_document(fitted))
    assert wrong in text
    document = json.loads(text.replace(wrong, right))
    document["sha256"] = content_hash(document)
    with pytest.raises(ReleaseFileError):
        restore(document)


# -- values that tell persons apart ---------------------------------------------------------------


class Odd:
    """An object whose code would tell that it is there."""

    def __hash__(self):
        raise AssertionError("the code of a cell ran")

    __eq__ = __repr__ = __hash__


IDENTITIES = {
    "decimals": [Decimal(k) / 3 for k in range(5)],
    "mixed": ["a", 1, 2.5, "b", Decimal("0.1")],
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_cells_of_known_types_are_persons_of_their_own(name):
    values = IDENTITIES[name]
    cells = np.empty(2 * len(values), dtype=object)
    cells[:] = [*values, *copy.deepcopy(values)]
    table = pd.DataFrame({"x": np.linspace(0, 1, len(cells)), "y": np.arange(len(cells)) % 2})
    table["who"] = pd.Series(cells, dtype=object)
    assert dplr(
        "y ~ x", table, 0, 0.1, person="who", bounds={"x": (0, 1), "y": (0, 1)}
    ).nobs == len(values)


def test_equal_numbers_are_one_person():
    cells = np.empty(4, dtype=object)
    cells[:] = [0.5, Decimal("0.50"), np.float32(0.5), "another"]
    column = pd.Series(cells, dtype=object)
    assert with_shares(as_batch({"who": column}), Person("who"))[0] == 2


def test_cells_of_other_types_are_one_person_and_run_no_code():
    cells = np.empty(8, dtype=object)
    cells[:] = [Odd(), (Odd(), Odd()), None, np.nan, pd.NaT, Decimal("NaN"), [1], "a"]
    table = pd.DataFrame({"x": np.linspace(0, 1, 8), "y": np.arange(8) % 2})
    table["who"] = pd.Series(cells, dtype=object)
    assert dplr("y ~ x", table, 0, 0.1, person="who", bounds={"x": (0, 1), "y": (0, 1)}).nobs == 2


@pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[s]", "complex128"])
def test_a_column_of_dates_is_no_column_of_persons(kind):
    table = pd.DataFrame({"x": [0.0, 1.0], "y": [0, 1], "who": np.array([1, 2]).astype(kind)})
    with pytest.raises(SchemaError, match=r"told apart by.*astype\(str\)"):
        dplr("y ~ x", table, 1.0, person="who", bounds={"x": (0, 1), "y": (0, 1)})
    table["who"] = table.who.astype(str)
    assert dplr("y ~ x", table, 0, 0.1, person="who", bounds={"x": (0, 1), "y": (0, 1)}).nobs == 2
