"""Public names and levels that no file, table or test could hold are refused before a payment."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from streams_for_tests import arrow, in_batches

import privatelr
from privatelr import Ledger, dplpsvm, dplr, dpmultinom, dpsimplex
from privatelr.errors import FormulaError, SchemaError
from privatelr.estimators import PrivateLogisticRegression

N = 60


def frame(**columns):
    rng = np.random.default_rng(3)
    u, v = rng.uniform(size=(2, N))
    three = pd.Categorical(rng.choice(["p", "q", "r"], N))
    return pd.DataFrame({"y": rng.random(N) < 0.5, "u": u, "v": v, "three": three} | columns)


def levels(values):
    return pd.Categorical.from_codes(np.arange(N) % len(values), values)


HALF = np.linspace(0, 1, N)
BOUNDS = {name: (0, 1) for name in ("u", "v", "u:v", "g[T.b]", "(Intercept)", "x" * 10_001)}
BAD = {
    "intervals": ("g", {"g": pd.cut(HALF, [-1, 0.5, 1])}, r"Interval.*rename_categories"),
    "dates": ("g", {"g": levels(pd.to_datetime(["2020-01-01", "2021-01-01"]))}, "Timestamp"),
    "tuples": ("g", {"g": levels([("a", 1), ("b", 2)])}, "tuple"),
    "infinite": ("g", {"g": levels([1.0, np.inf])}, "inf"),
    "written alike": ("g", {"g": levels([1, "1"])}, "written '1'"),
    "a huge number": ("g", {"g": levels([1, 10**18])}, "declare levels="),
    "half a character": ("g", {"g": levels(pd.Index(["a", "\ud800"], dtype=object))}, "ud800"),
    "many levels": ("g", {"g": levels([f"l{k}" for k in range(5001)])}, "at most 5000"),
    "a long name": ("x" * 10_001, {"x" * 10_001: HALF}, "<= 10000"),
    "a product": ("u * v + `u:v`", {"u:v": HALF}, "'u:v'"),
    "a dummy": ("g + `g[T.b]`", {"g": levels(["a", "b"]), "g[T.b]": HALF}, r"'g\[T.b\]'"),
    "the intercept": ("u + `(Intercept)`", {"(Intercept)": HALF}, "rename a column"),
    "a term": (
        "g * h + `g:h`",
        {"g": levels(["a", "b"]), "h": levels(["c", "d"]), "g:h": HALF},
        "'g:h'",
    ),
}


def bounds_of(data):
    return {name: ends for name, ends in BOUNDS.items() if name in data}


def declared(model, response="y", wrap=None, **more):
    def fitted(formula, data, ledger):
        given = data if wrap is None else wrap(data)
        return model(
            f"{response} ~ {formula}", given, ledger=ledger, bounds=bounds_of(data), **more
        )

    return fitted


DOORS = {
    "dplr": declared(dplr),
    "plain": declared(dplr, eps=0),
    "dpsvm": declared(privatelr.dpsvm),
    "strata": declared(dplr, by="three"),
    "dpmultinom": declared(dpmultinom, "three"),
    "dplpsvm": declared(dplpsvm, density=0.1),
    "dpsimplex": declared(dpsimplex),
    "Dask": declared(dplr, wrap=lambda data: dd.from_pandas(data, npartitions=2)),
    "check": lambda formula, data, _: privatelr.check(
        f"y ~ {formula}", data, bounds=bounds_of(data)
    ),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.filterwarnings("ignore::privatelr.PrivacyWarning")
def test_what_no_file_or_table_could_hold_is_refused_unpaid(bad, door):
    formula, columns, says = BAD[bad]
    data, ledger = frame(**columns), Ledger(epsilon=10, delta=1e-5)
    with pytest.raises((SchemaError, FormulaError), match=says):
        door(formula, data, ledger)
    assert not ledger.entries


def test_a_stream_is_refused_before_it_is_read():
    data, readings, ledger = frame(**{"u:v": HALF}).drop(columns="three"), [], Ledger(epsilon=1)
    read = in_batches(arrow(data))

    def reader():
        readings.append(1)
        return read()

    stream, before = privatelr.stream(reader), len(readings)
    with pytest.raises(FormulaError, match="'u:v'"):
        dplr("y ~ u * v + `u:v`", stream, ledger=ledger, bounds=bounds_of(data))
    assert len(readings) == before
    assert not ledger.entries


@pytest.mark.parametrize("bad", [name for name in BAD if name not in ("a product", "a term")])
def test_estimators_refuse_it_unpaid(bad):
    _, columns, says = BAD[bad]
    data, ledger = frame(**columns).drop(columns="three"), Ledger(epsilon=1)
    model = PrivateLogisticRegression(ledger=ledger, bounds=bounds_of(data), classes=(False, True))
    with pytest.raises((SchemaError, FormulaError), match=says):
        model.fit(data.drop(columns="y"), data["y"])
    assert not ledger.entries


def test_a_column_without_a_name_is_not_meant_by_a_dot():
    ledger = Ledger(epsilon=1)
    with pytest.raises(FormulaError, match="rename it or drop it"):
        dplr("y ~ .", frame(**{"a`b": HALF}), ledger=ledger)
    assert not ledger.entries
    fit = dplr("y ~ .", frame(**{"": HALF}), ledger=ledger, bounds=bounds_of(frame()))
    assert list(fit.coef.index) == ["(Intercept)", "u", "v", "three[T.q]", "three[T.r]"]


@pytest.mark.filterwarnings("ignore::privatelr.PrivacyWarning")
@pytest.mark.parametrize(
    "name", ["a b", " a", "a\nb", "a|b", "1", "x²", "😀", "TRUE", "offset", "a,b=c", "u^2", "<b>"]
)
def test_odd_names_go_through_every_view(name, tmp_path):
    data = frame(**{name: HALF, "g": levels(["b]", "b ["])}).drop(columns=["three", "v"])
    given = {"bounds": {"u": (0, 1), name: (0, 1)}, "spend": "inference"}
    fit = dplr("y ~ .", data, eps=0, lambda_=1e-6, **given)
    fit.save(tmp_path / "fit.json")
    back = privatelr.load(tmp_path / "fit.json")
    pd.testing.assert_series_equal(back.predict(data), fit.predict(data))
    table = fit.tidy().set_index("term")
    for term in fit.coef.index:
        one = table.loc[term]
        square = (one.estimate / one.std_error) ** 2
        assert fit.wald_test(term).statistic == pytest.approx(square, rel=1e-6)
    assert name in fit.anova().index
    for view in (fit, fit.summary(), fit.card(), fit._repr_html_(), privatelr.compare([fit])):
        assert str(view)
