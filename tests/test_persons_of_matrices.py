"""Persons beside a response and a matrix: the same fits as of a table with a column of persons."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from privatelr import (
    ArgumentError,
    FormulaError,
    GuaranteeError,
    ReleaseFileError,
    SchemaError,
    choose,
    dplr,
    dpsvm,
)
from privatelr.call_data import read_data
from privatelr.formula import Person
from privatelr.mechanisms.stages.histogram import score_counts
from privatelr.privacy import REPLACE_PERSON, ZCDP
from privatelr.privacy.accounting import Ledger
from privatelr.results.release_files import content_hash, release_document, restore
from privatelr.sources import declare_schema

SIZES = (3, 1, 2, 5, 1, 1, 4, 2) * 30
M, N = len(SIZES), sum(SIZES)
WHOSE = np.random.default_rng(8).permutation(np.repeat(np.arange(M), SIZES))
KINDS = {
    "array": np.asarray,
    "frame": lambda x: pd.DataFrame(x, columns=[f"X{i}" for i in range(1, 7)]),
    "sparse": sparse.csr_array,
}
PRICES = [{"eps": 1}, {"eps": ZCDP(0.1, REPLACE_PERSON)}, {"eps": 1, "delta": 1e-6}]
ROC = {"spend": {"coefficients": 0.7, "roc": 0.3}, "do_scale": False}


def numbers(n=N, seed=0):
    """Rows of at most length 1, half of whose entries are zeros, and a response."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 6)) * rng.integers(2, size=(n, 6)) / np.sqrt(6)
    return x, rng.random(n) < 1 / (1 + np.exp(-6 * x[:, 0]))


X, Y = numbers()
FRAME = KINDS["frame"](X).assign(y=Y, person=WHOSE)


def of_both(kind, fitting=dplr, **given):
    """The same fit of a matrix and of a frame, with the same noise."""
    given = {"records_per_person": 2, "seed": 4, "row_norm": 1.0, **given}
    with pytest.warns(UserWarning, match="seed"):
        table = fitting("y ~ .", FRAME, person="person", **given)
    with pytest.warns(UserWarning, match="seed"):
        matrix = fitting(Y, KINDS[kind](X), person=WHOSE, **given)
    return table, matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fitting", [dplr, dpsvm])
@pytest.mark.parametrize("price", PRICES, ids=["pure", "zcdp", "delta"])
def test_a_matrix_has_the_fit_of_the_frame(kind, fitting, price):
    table, matrix = of_both(kind, fitting, **price)
    assert matrix.calibration.problem.persons
    assert matrix.nobs == table.nobs == M
    assert matrix.calibration == table.calibration
    assert matrix.guarantee == table.guarantee
    np.testing.assert_allclose(matrix.coef, table.coef, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_has_the_curve_of_the_frame(kind):
    """Of a sparse matrix no records are made up, from which the bins would be guessed."""
    table, matrix = of_both(kind, eps=300, **ROC)
    assert matrix.roc.nobs == M
    assert matrix.roc.prevalence == pytest.approx(table.roc.prevalence, abs=0.01)
    if kind != "sparse":
        np.testing.assert_array_equal(matrix.roc.release.counts, table.roc.release.counts)
    edges, coef = np.linspace(-2, 2, 9), table.release.coef
    counts = [
        score_counts(
            source.rows(source.plan(declare_schema(None, None, 1.0, None)), bar=False)[0],
            coef,
            edges,
        )
        for source in (
            read_data("y ~ . + person(person, 2)", FRAME, None),
            read_data(Y, KINDS[kind](X), None, person=WHOSE, records_per_person=2),
        )
    ]
    np.testing.assert_allclose(counts[1], counts[0], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [1, 3, 100])
def test_the_objective_is_that_of_the_frame(kind, most):
    """Records weigh the same, and the rows of a person 1 at most together, in any matrix."""
    given = {"person": WHOSE, "records_per_person": most, "weights": None}
    source = read_data(Y, KINDS[kind](X), None, **given)
    assert len(source) == M
    spec = source.plan(declare_schema(None, None, 1.0, None))
    rows = source.rows(spec, bar=False)[0]
    counted = np.bincount(WHOSE, 1 / np.square(rows.y))
    np.testing.assert_allclose(counted, np.minimum(1, np.array(SIZES) / most), rtol=1e-11)
    assert counted.max() <= 1
    x = rows.x.toarray() if sparse.issparse(rows.x) else rows.x
    np.testing.assert_allclose(x[:, 1:] * np.abs(rows.y)[:, None], X, atol=1e-9)
    assert rows.n == M
    assert rows.records == N


@pytest.mark.parametrize(
    "whose",
    [
        list(map(str, WHOSE)),
        WHOSE.tolist(),
        WHOSE.astype(str),
        pd.Series(WHOSE, index=np.arange(N)[::-1]),
        pd.Series(WHOSE).astype(str).astype("category"),
        WHOSE[:, None],
    ],
    ids=["texts", "integers", "array of texts", "series", "categories", "column"],
)
@pytest.mark.parametrize("kind", ["array", "sparse"])
def test_persons_are_whatever_tells_them_apart(kind, whose):
    """By position: the index of a series orders nothing."""
    expected, found = (
        dplr(Y, KINDS[kind](X), 0, lambda_=0.1, row_norm=1.0, person=p) for p in (WHOSE, whose)
    )
    np.testing.assert_array_equal(expected.coef, found.coef)
    assert found.nobs == M


@pytest.mark.parametrize("kind", ["array", "sparse"])
def test_the_column_has_the_name_of_the_series_and_of_no_other(kind):
    x = KINDS[kind](X)
    given = {"eps": 1, "row_norm": 1.0, "records_per_person": 3}
    for whose, y, name in (
        (WHOSE, Y, "person"),
        (pd.Series(WHOSE, name="patient"), Y, "patient"),
        (WHOSE, pd.Series(Y, name="person"), "person_"),
        (pd.Series(WHOSE, name="y"), Y, "y_"),
    ):
        fitted = dplr(y, x, person=whose, **given)
        assert fitted.spec.formula.person == Person(name, 3)
        assert fitted.formula.endswith(f"+ person({name}, 3)")
        assert len(fitted.coef) == 7
    with pytest.raises(SchemaError, match="no backtick"):
        dplr(Y, x, 1, person=pd.Series(WHOSE, name="a`"))


# -- what may be seen ---------------------------------------------------------------------------


def told(error, *call, **given):
    with pytest.raises(error) as caught:
        dplr(*call, **given)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_no_error_about_lengths_names_one(kind):
    """The caller's lengths differ, and the number of records is not public all the same."""
    said = set()
    for n in (N, N + 500):
        x, y = numbers(n)
        whose, x = np.arange(n) // 4, KINDS[kind](x)
        said.add(told(SchemaError, y, x, 1, person=whose[:-1]))
        said.add(told(SchemaError, y[:-1], x, 1, person=whose))
        said.add(told(SchemaError, y[:-1], x, 1, person=whose[:-1]))
    (only,) = said
    assert "person: y, X and person take one value for each record" in only
    assert not re.search(r"\d", only)


@pytest.mark.parametrize("n", [60, 90])
def test_a_matrix_of_one_dimension_is_refused_without_its_length(n):
    one = sparse.coo_array(np.ones(n))
    said = told(SchemaError, np.zeros(n), one, 1, person=np.arange(n))
    assert said == "X of ndim 1: a sparse matrix takes two dimensions."


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_records_is_nowhere(kind):
    """Two matrices of as many persons, with 200 and with 5,021 records."""
    seen = []
    for n in (200, 5021):
        x, y = numbers(n)
        ledger = Ledger(9.0, neighbours="person")
        given = {"lambda_": 1.0, "row_norm": 1.0, "ledger": ledger, "verbose": 1}
        whose = pd.Series(np.arange(n) % 200, name="person")
        fitted = dplr(y, KINDS[kind](x), 1, person=whose, **given)
        page = " ".join(str(fitted).split())
        assert "neighbours replace all records of one of m = 200 persons" in page
        texts = page, fitted.card(), repr(fitted), json.dumps(release_document(fitted))
        assert not any(re.search(r"(?<![\w.])5,?021(?![\w.])", text) for text in texts)
        entry = ledger.entries[0]
        seen.append((str(fitted.calibration), fitted.guarantee, fitted.formula, entry))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"person": 3}, FormulaError, "person=3: beside y and X it takes one value for each row"),
        ({"person": "patient"}, FormulaError, "person='patient': beside y and X it takes one"),
        ({"person": {1, 2}}, SchemaError, "person of type set"),
        ({"person": np.zeros((N, 2))}, FormulaError, "person=<ndarray>: beside y and X"),
        ({"person": WHOSE, "records_per_person": 0}, FormulaError, "records_per_person=0"),
        ({"person": None, "records_per_person": 2}, FormulaError, "beside person="),
        ({"person": WHOSE.astype("datetime64[s]")}, SchemaError, "'person' has the type datetime"),
        ({"person": WHOSE, "weights": "w"}, ArgumentError, "weights: it reads columns of a frame"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(given, error, words):
    with pytest.raises(error, match=words):
        dplr(Y, sparse.csr_array(X), 1, **given)


def test_values_beside_a_formula_are_refused_and_not_quoted():
    for whose in (["Ann", "Bob"], np.array(["Ann", "Bob"]), pd.Series(["Ann", "Bob"])):
        said = told(FormulaError, "y ~ .", FRAME, 1, person=whose)
        assert "takes the name of a column of the data" in said
        assert "Ann" not in said


# -- files ----------------------------------------------------------------------------------------


def changed(document, change):
    change(document["call"]["design"])
    document["sha256"] = content_hash(document)
    return document


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("person"), "person"),
        (lambda d: d["person"].update(records_per_person=0), "records_per_person"),
        (lambda d: d["person"].update(column=""), "column"),
        (lambda d: d["person"].update(column="a`"), "column"),
        (lambda d: d["person"].update(column="y"), "design.person"),
    ],
)
def test_a_file_cannot_say_less_than_its_noise(change, words):
    fitted = dplr(Y, sparse.csr_array(X), 1, person=WHOSE)
    document = json.loads(json.dumps(release_document(fitted)))
    with pytest.raises(ReleaseFileError, match=words):
        restore(changed(document, change))


# -- whose persons they are ----------------------------------------------------------------------

NAMED = {name: pd.Series(WHOSE, name=name) for name in ("patient", "clinic")}


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_takes_values_of_the_persons_of_the_fit(kind):
    """Values under another name were charged as those of the fit, who are others."""
    x, ledger = KINDS[kind](X), Ledger(9.0, neighbours="person")
    fitted = dplr(Y, x, 1, row_norm=1.0, person=NAMED["clinic"], ledger=ledger)
    given = {"eps": 1, "response": Y, "ledger": ledger}
    other = r"^person: these values are named 'patient', and the fit is about persons of 'clinic'"
    with pytest.raises(GuaranteeError, match=other):
        fitted.private_roc(x, person=NAMED["patient"], **given)
    with pytest.raises(GuaranteeError, match=other):
        choose({"a": fitted, "b": fitted}, x, person=NAMED["patient"], **given)
    assert len(ledger.entries) == 1
    fitted.private_roc(x, person=NAMED["clinic"], **given)
    choose({"a": fitted, "b": fitted}, x, person=NAMED["clinic"], **given)
    assert [entry.person for entry in ledger.entries] == ["clinic"] * 3


def test_a_column_beside_one_of_its_name_is_known_by_that():
    """The column is named `clinic_` beside a covariate `clinic`, and the values stay those."""
    frame = KINDS["frame"](X).rename(columns={"X1": "clinic"})
    fitted = dplr(Y, frame, 1, row_norm=1.0, person=NAMED["clinic"])
    assert fitted.spec.formula.person.column == "clinic_"
    fitted.private_roc(frame, response=Y, person=NAMED["clinic"])
    with pytest.raises(GuaranteeError, match="named 'patient'"):
        fitted.private_roc(frame, response=Y, person=NAMED["patient"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [WHOSE, list(WHOSE), pd.Series(WHOSE)])
def test_a_ledger_takes_no_persons_without_a_name(kind, values):
    """Arrays of patients and of clinics added up as one column."""
    x, unnamed = KINDS[kind](X), "^person: a ledger adds up prices .* have no name"
    ledger = Ledger(9.0, neighbours="person")
    given = {"eps": 1, "row_norm": 1.0, "person": values}
    with pytest.raises(GuaranteeError, match=unnamed):
        dplr(Y, x, ledger=ledger, **given)
    with Ledger(9.0, neighbours="person") as opened, pytest.raises(GuaranteeError, match=unnamed):
        dplr(Y, x, **given)
    fitted = dplr(Y, x, **given)
    with pytest.raises(GuaranteeError, match=unnamed):
        fitted.private_roc(x, 1, response=Y, person=values, ledger=ledger)
    with pytest.raises(GuaranteeError, match=unnamed):
        choose({"a": fitted, "b": fitted}, x, 1, response=Y, person=values, ledger=ledger)
    fitted.private_roc(x, response=Y, person=values)
    assert ledger.entries == opened.entries == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_classifier_states_the_name_of_persons(kind):
    pytest.importorskip("sklearn")
    from privatelr.estimators import PrivateLogisticRegression

    ledger = Ledger(9.0, neighbours="person")
    norm = {"row_norm": 1.0} if kind == "sparse" else {"bounds": (-1, 1)}
    model = PrivateLogisticRegression(classes=(0, 1), ledger=ledger, **norm)
    model.fit(KINDS[kind](X), Y, person=NAMED["clinic"])
    assert ledger.person == "clinic"
    with pytest.raises(GuaranteeError, match="are not those of 'clinic'"):
        model.fit(KINDS[kind](X), Y, person=NAMED["patient"])
    with pytest.raises(GuaranteeError, match="have no name"):
        model.fit(KINDS[kind](X), Y, person=WHOSE)
    assert len(ledger.entries) == 1
