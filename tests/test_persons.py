"""Fits to persons with several records: who they are, how much they count, what stays unseen."""

import datetime
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, sparse

from privatelr import (
    ArgumentError,
    FormulaError,
    GuaranteeError,
    PureDP,
    ReleaseFileError,
    SchemaError,
    dplpsvm,
    dplr,
    dpsimplex,
    dpsvm,
    load,
    plan,
)
from privatelr.audit import privacy_loss
from privatelr.cli import main
from privatelr.mechanisms import Problem
from privatelr.mechanisms.calibration.moment_noise import calibrate_moments, moments_sensitivity
from privatelr.mechanisms.perturbation import mean_moments
from privatelr.model_data import read_data
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import gram_of_persons
from privatelr.privacy import REPLACE_PERSON, ZCDP
from privatelr.privacy.accounting import Ledger
from privatelr.results.release_files.document import content_hash, release_document
from privatelr.results.release_files.restored_fit import restore
from privatelr.sources import declare_schema

BOUNDS = {"x": (0.0, 1.0), "z": (-2.0, 2.0)}
PERSON = {"bounds": BOUNDS, "person": "patient"}
pl = pytest.importorskip("polars")


def patients(sizes=(3, 1, 2, 5, 1, 1, 4, 2), seed=0):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    columns = {"y": rng.integers(2, size=n), "x": rng.uniform(size=n), "z": rng.normal(size=n)}
    return pd.DataFrame(columns | {"patient": np.repeat(np.arange(len(sizes)), sizes)})


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
    """Whatever the number of records is, and however long they are: laws of people.md 1 (i)."""
    frame, rng = patients(), np.random.default_rng(5)
    frame["x"], frame["z"] = 1.0, 2.0
    frame["y"] = 1
    if sparse:
        frame["k"] = pd.Categorical(rng.integers(80, size=len(frame)), categories=range(80))
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
    assert np.isfinite(dplr("y ~ x", frame, 1, bounds={"x": (0, 1)}, person="patient").coef).all()


def test_persons_have_a_type_that_can_hold_them():
    frame = patients().assign(patient=pd.Timestamp("2020-01-01"))
    with pytest.raises(SchemaError, match="'patient' has the type datetime64"):
        dplr("y ~ x + z", frame, 1, **PERSON)


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


@pytest.mark.parametrize("fitting", [dplr, dpsvm])
def test_the_guarantee_is_about_persons(fitting):
    fitted = fitting("y ~ x + z + person(patient, 2)", patients(), 1, bounds=BOUNDS)
    assert fitted.guarantee == PureDP(1, REPLACE_PERSON)
    assert fitted.calibration.problem.persons
    assert fitted.calibration.problem.n == 8
    given = fitting("y ~ x + z", patients(), PureDP(1, REPLACE_PERSON), **PERSON)
    assert given.guarantee == fitted.guarantee


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
        ({"ledger": Ledger(5)}, GuaranteeError, "'person' and not 'replace'"),
        ({"spend": {"coefficients": 0.5, "roc": 0.5}}, GuaranteeError, "person and spend={'roc'"),
        ({"do_scale": "private"}, GuaranteeError, "person and do_scale='private'"),
        ({"records_per_person": 0}, FormulaError, "records_per_person=0: .* from 1 to 1000000"),
        ({"records_per_person": 2.0}, FormulaError, "records_per_person=2.0"),
        ({"records_per_person": True}, FormulaError, "records_per_person=True"),
        ({"person": 3}, FormulaError, "person=3: person takes the name of a column"),
        ({"person": "pateint"}, FormulaError, "the nearest name is 'patient'"),
        ({"person": None, "records_per_person": 2}, FormulaError, "beside person="),
    ],
)
def test_what_is_not_built_is_refused_in_one_sentence(options, error, words):
    given = {"eps": 1, **PERSON, **options}
    with pytest.raises(error, match=words):
        dplr("y ~ x + z", patients(), **given)


@pytest.mark.parametrize(
    "term",
    ["person()", "person(patient, 0)", "person(patient, x)", "person(patient, 2.5)", "x:person(z)"],
)
def test_terms_that_name_no_person(term):
    with pytest.raises(FormulaError, match="formula: "):
        dplr(f"y ~ x + {term}", patients(), 1, bounds=BOUNDS)


def test_a_formula_names_one_person():
    with pytest.raises(FormulaError, match=r"takes person\(\) once, not 2 times"):
        dplr("y ~ x + person(z)", patients(), 1, **PERSON)


def test_a_dot_does_not_stand_for_a_person():
    fitted = dplr("y ~ . + person(patient)", patients(), 1, bounds=BOUNDS)
    assert list(fitted.coef.index) == ["(Intercept)", "x", "z"]
    whole = dplr(patients()[["patient", "x", "z", "y"]], eps=1, **PERSON)
    assert list(whole.coef.index) == ["(Intercept)", "x", "z"]


def test_whoever_reads_rows_by_themselves_refuses_persons():
    """Where nobody groups records, each would count as much as a person."""
    dask = pytest.importorskip("dask.dataframe")
    formula, frame = "y ~ x + z + person(patient)", patients()
    with pytest.raises(ArgumentError, match="several partitions"):
        dplr(formula, dask.from_pandas(frame, npartitions=2), 1, bounds=BOUNDS)
    for fitting in (dplpsvm, dpsimplex):
        with pytest.raises(FormulaError, match="goes with dplr and dpsvm"):
            fitting(formula, frame, 1)
    with pytest.raises(FormulaError, match=r"person\(patient\) in a plan"):
        plan(formula, 500, eps=1, bounds=BOUNDS)
    fitted = dplr(formula, frame, 1, bounds=BOUNDS)
    with pytest.raises(ArgumentError, match="takes what is about records"):
        privacy_loss(fitted, frame, frame)
    from scipy.sparse import csr_array

    with pytest.raises(ArgumentError, match="person: it reads columns of a frame"):
        dplr(frame.y, csr_array(np.eye(len(frame))), 1, person="patient")


def test_no_error_names_the_number_of_records():
    """Lengths that differ are named where n is public."""
    frame = patients()
    with pytest.raises(ArgumentError, match="take a formula and a frame"):
        dplr(frame.y[:7], frame[["x", "patient"]], 1, **PERSON)
    with pytest.raises(SchemaError) as caught:
        dplr("y ~ x", frame.x.to_numpy(), 1, **PERSON)
    assert "19" not in str(caught.value)


def test_predictions_need_no_person():
    fitted = dplr("y ~ x + z", patients(), 1, **PERSON)
    assert len(fitted.predict(patients().drop(columns="patient"))) == 19


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
    """The cluster-robust sandwich (people.md 1), in any order of the records."""
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
    frame["k"] = pd.Categorical(rng.integers(80, size=len(frame)), categories=range(80))
    rows = rows_of(frame, "y ~ x + z + k + person(patient)")[0]
    weights = rng.uniform(size=len(frame))
    by_label = dict(zip(rows.y.tolist(), weights, strict=True))
    assert sparse.issparse(rows.x)

    def weigh(x, y):
        return np.array([by_label[label] for label in y.tolist()])

    weights[:] = weigh(None, rows.y)
    pulls = pd.DataFrame(rows.x.toarray() * weights[:, None])
    pulls = pulls.groupby(frame.patient.to_numpy()).sum().to_numpy()
    np.testing.assert_allclose(gram_of_persons(rows, weigh, 1e9), pulls.T @ pulls, atol=1e-12)
    most = float(np.linalg.norm(pulls, axis=1).max())
    held = gram_of_persons(rows, weigh, most / 100)
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
    for _ in range(300):
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


@pytest.mark.parametrize("price", PRICES, ids=["pure", "delta", "zcdp"])
@pytest.mark.parametrize("fitting", [dplr, dpsvm])
def test_every_promise_buys_standard_errors(price, fitting, tmp_path):
    fitted = fitting("y ~ x + z", patients([2] * 500), spend="inference", **price, **PERSON)
    assert np.isfinite(fitted.conf_int()).to_numpy().all()
    assert fitted.guarantee.neighbours is REPLACE_PERSON
    assert "one of m = 500 persons" in " ".join(str(fitted).split())
    fitted.save(tmp_path / "fit.json")
    again = load(tmp_path / "fit.json")
    pd.testing.assert_frame_equal(again.conf_int(), fitted.conf_int())
    assert "scores by person" in " ".join(str(again).split())


def test_matrices_of_persons_do_not_show_the_number_of_records():
    few, many = patients(), patients((3, 1, 2, 5000, 1, 1, 4, 9))
    given = {"lambda_": 1.0, "spend": "inference", **PERSON}
    first, second = (dplr("y ~ x + z", frame, 1, **given) for frame in (few, many))
    assert seen(first) == seen(second)
    assert first.release.moments.calibration == second.release.moments.calibration
    assert b"5021" not in pickle.dumps(second.release)


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
    many.save(path)
    assert "5021" not in path.read_text()


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


def test_the_card_speaks_of_persons():
    fitted = dplr("y ~ x + z", patients(), 1, **PERSON)
    card = " ".join(fitted.card().split())
    for words in (
        "of the records of 8 persons:",
        "To each of 8 persons, for all records that they have: epsilon = 1 (pure)",
        "knows the other 7 persons with all their records",
        "between any two guesses about your records change",
        "A group of k persons is covered",
        "one person where 'patient' has the same value",
        "The number of persons, m = 8, is public (that of records is not), and so are names",
        "of m = 8 persons",
    ):
        assert words in card
    assert "n = 8" not in card


def test_the_command_line_takes_persons(tmp_path, capsys):
    """`tests/cli/test_terms_by_options.py` has what it tells of their records."""
    path = tmp_path / "patients.csv"
    patients().to_csv(path, index=False)
    declared = ["--bounds", "x=0:1", "--bounds", "z=-2:2"]
    assert main(["fit", str(path), "y ~ x + z + person(patient)", *declared]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"one of m = {patients().patient.nunique()} persons" in told
