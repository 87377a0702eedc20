"""Every public name, used once: it does what its name says, in a fraction of a second."""

import math
import sys
from functools import cache

import numpy as np
import pytest
from frames_for_laws import FORMULA, SCHEMA, clinic, fit_clinic, replaced

import privatelr as lr

pytestmark = pytest.mark.quick


@cache
def fit():
    return fit_clinic(clinic(n=300), model=lr.dplr, eps=2.0, spend="inference")


@cache
def chosen():
    return fit_clinic(clinic(n=300), model=lr.dplpsvm, eps=4.0, rounds=20)


@cache
def several():
    groups = clinic(n=300).assign(group=["a", "b", "c"] * 100)
    schema = {**SCHEMA, "levels": {**SCHEMA["levels"], "group": ["a", "b", "c"]}}
    return lr.dpmultinom("group ~ age", groups, 1.0, **schema)


@cache
def chosen_fit():
    return lr.choose({"one": fit(), "same": fit()}, clinic(n=100, seed=2), eps=0.5)


def neighbours_loss():
    frame = clinic(n=300)
    one_off = replaced(frame, 0, age=90.0)
    return lr.audit.privacy_loss(fit_clinic(frame, model=lr.dplr, eps=1.0), frame, one_off)


@cache
def study():
    return lr.plan(FORMULA, 500, spend=None, **SCHEMA)


def online_play():
    play = lr.PrivateFTRL(n_experts=3, horizon=5, epsilon=1.0)
    chosen_expert = play.predict()
    play.update([0.0, 1.0, 1.0])
    return chosen_expert


def solved_program():
    rng = np.random.default_rng(1)
    uses, limits = rng.uniform(0, 1, (2000, 3)), rng.uniform(0.5, 1, 2000)
    return lr.constraint_private_lp(uses, limits, np.ones(3), 0.9, width=1.0, violated=1000)


def spent():
    ledger = lr.Ledger(3.0)
    fit_clinic(clinic(), model=lr.dplr, eps=1.0, ledger=ledger)
    return ledger.spent(0.0)


def minimiser(**limits):
    return fit_clinic(clinic(), model=lr.dplr, eps=0, lambda_=0.1, solver=lr.Newton(**limits))


@cache
def suggested():
    return lr.suggest_bounds(clinic(n=2000), {"age": (0, 1000)}, eps=1.0)


@cache
def found_levels():
    frame = {"group": ["b", "a"] * 500}
    return lr.levels_from(frame, "group", eps=1.0, delta=1e-6)


def streamed():
    arrow = pytest.importorskip("pyarrow")
    table = arrow.Table.from_pandas(clinic(), preserve_index=False)
    return lr.stream(table.to_reader, memory="1GiB")


USES = {
    "REPLACE_ONE": lambda: lr.PureDP(1.0).neighbours is lr.REPLACE_ONE,
    "REPLACE_PERSON": lambda: lr.ZCDP(0.1, "person").neighbours is lr.REPLACE_PERSON,
    "ZCDP": lambda: lr.ZCDP(0.1).rho == 0.1,
    "ApproxDP": lambda: lr.ApproxDP(1.0, 1e-6).delta == 1e-6,
    "Calibration": lambda: isinstance(fit().calibration, lr.Calibration),
    "ChosenFit": lambda: isinstance(chosen_fit(), lr.ChosenFit),
    "Comparison": lambda: isinstance(lr.compare(fit(), chosen()), lr.Comparison),
    "Diagnostics": lambda: isinstance(fit().diagnostics, lr.Diagnostics),
    "Fit": lambda: isinstance(fit(), lr.Fit) and np.isfinite(fit().predict(clinic())).all(),
    "Ledger": lambda: spent() == 1.0,
    "Newton": lambda: np.isfinite(minimiser().coef).all(),
    "NonPrivate": lambda: isinstance(minimiser().guarantee, lr.NonPrivate),
    "PrivateFTRL": lambda: online_play() in {0, 1, 2},
    "PureDP": lambda: fit().guarantee == lr.PureDP(2.0),
    "ReleasedLevels": lambda: isinstance(found_levels(), lr.ReleasedLevels),
    "Release": lambda: isinstance(fit().release, lr.Release),
    "SelectedFit": lambda: isinstance(chosen(), lr.SelectedFit),
    "Strata": lambda: isinstance(lr.dplr("y ~ age", clinic(), by="smoker", **SCHEMA), lr.Strata),
    "SuggestedBounds": lambda: isinstance(suggested(), lr.SuggestedBounds),
    "StudyPlan": lambda: isinstance(study(), lr.StudyPlan),
    "__version__": lambda: lr.__version__.count(".") >= 2,
    "audit": lambda: 0 <= neighbours_loss().found <= 1.0,
    "check": lambda: "age" in str(lr.check(FORMULA, clinic(), **SCHEMA)),
    "choose": lambda: chosen_fit().guarantee == lr.PureDP(2.5),
    "compare": lambda: "epsilon = 2 (pure)" in str(lr.compare(fit(), fit())),
    "compose": lambda: lr.compose([lr.PureDP(1.0), lr.PureDP(2.0)]) == lr.PureDP(3.0),
    "constraint_private_lp": lambda: solved_program().x.sum() == pytest.approx(0.9),
    "dplpsvm": lambda: np.isfinite(chosen().predict(clinic(), type="margins")).all(),
    "dplr": lambda: "epsilon = 2" in str(fit().summary()),
    "dpmultinom": lambda: several().predict(clinic()).shape == (len(clinic()), 3),
    "MultinomialFit": lambda: isinstance(several(), lr.MultinomialFit),
    "dpsimplex": lambda: fit_clinic(clinic(n=300), model=lr.dpsimplex).coef.any(),
    "dpsvm": lambda: set(fit_clinic(clinic(), model=lr.dpsvm).predict(clinic())) <= {0, 1},
    "implies": lambda: lr.implies(lr.PureDP(1.0), lr.ApproxDP(1.0, 1e-6)),
    "levels_from": lambda: found_levels()["group"] == ("a", "b"),
    "load_dataset": lambda: len(lr.load_dataset("iris")) == 150,
    "load_schema": lambda: "bounds" in lr.load_schema("iris"),
    "plan": lambda: "records" in str(study()),
    "plot_coefficients": lambda: lr.plot_coefficients(fit()).get_yticklabels(),
    "stream": lambda: streamed().columns == ("age", "dose", "smoker", "y"),
    "suggest_bounds": lambda: 0 <= suggested()["age"][0] < suggested()["age"][1] <= 1000,
    "to_approximate": lambda: lr.to_approximate(lr.ZCDP(0.1), 1e-6).epsilon > 0.1,
    "to_zcdp": lambda: lr.to_zcdp(lr.PureDP(1.0)).rho == pytest.approx(math.tanh(0.5)),
}
"""What is called, and is true of its result."""

REFUSED = {
    "ArgumentError": lambda: fit().predict(clinic(), type="odds"),
    "FormulaError": lambda: lr.dplr("y ~ (age", clinic()),
    "GuaranteeError": lambda: lr.PureDP(-1.0),
    "NoRelease": lambda: fit_clinic(clinic(), model=lr.dpsimplex, eps=0.5, lambda_=1e-4),
    "NotConvergedError": lambda: minimiser(max_iterations=1),
    "LedgerError": lambda: lr.Ledger.open("/nowhere/clinic.ledger"),
    "PrivateLRError": lambda: lr.ZCDP(0.0),
    "SchemaError": lambda: lr.dplr(FORMULA, clinic(), bounds={"age": (90, 18)}),
}
"""What raises an error of the name."""


@pytest.mark.parametrize("name", USES)
def test_a_name_in_use(name):
    assert USES[name]()


@pytest.mark.parametrize("name", REFUSED)
def test_an_error(name):
    with pytest.raises(getattr(lr, name)):
        REFUSED[name]()


def test_load(tmp_path):
    path = tmp_path / "fit.json"
    fit().save(path)
    assert (lr.load(path).coef == fit().coef).all()
    path.write_text(path.read_text(encoding="utf-8").replace("{", "[", 1), encoding="utf-8")
    with pytest.raises(lr.ReleaseFileError):
        lr.load(path)


def test_average_marginal_effects():
    declared = fit_clinic(clinic(n=300), eps=2.0, spend="inference", do_scale=False)
    found = lr.average_marginal_effects(declared)
    assert isinstance(found, lr.MarginalEffects)
    assert list(found.table.index) == ["age", "dose"]


def test_scaled():
    with pytest.warns(lr.PrivacyWarning, match="not private"):
        found = lr.scaled(FORMULA, clinic(), levels=SCHEMA["levels"])
    assert isinstance(found, lr.ScaledData)
    assert found.scale > 0


@pytest.mark.filterwarnings("default::privatelr.errors.SchemaWarning")
def test_no_bounds():
    with pytest.warns(lr.SchemaWarning, match="bounds"):
        lr.dplr("y ~ age", clinic(), levels=SCHEMA["levels"])


def test_missing_dependency(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(lr.MissingDependencyError, match="matplotlib"):
        lr.plot_coefficients(fit())


USED_IN = {
    "MarginalEffects": test_average_marginal_effects,
    "MissingDependencyError": test_missing_dependency,
    "PrivacyWarning": test_scaled,
    "ReleaseFileError": test_load,
    "ScaledData": test_scaled,
    "SchemaWarning": test_no_bounds,
    "average_marginal_effects": test_average_marginal_effects,
    "load": test_load,
    "scaled": test_scaled,
}
"""The other names, and the tests above that use them."""


def test_every_public_name_is_used_once():
    assert sorted([*USES, *REFUSED, *USED_IN]) == sorted(lr.__all__)
