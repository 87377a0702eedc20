"""What people type in a first hour: a slip costs nothing, and its error has the way out."""

import pydoc
import re

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FORMULA, SCHEMA, clinic, fit_clinic

from privatelr import (
    Ledger,
    PrivateLRError,
    SelectedFit,
    compare,
    dplr,
    dpmultinom,
    dpsimplex,
    load,
    load_dataset,
    load_schema,
    plan,
)
from privatelr.planning.forecast import rows_of

FIT = fit_clinic(clinic(), eps=4.0, spend="inference")
BY_SMOKER = {**SCHEMA, "by": "smoker"}
VISITS = clinic().assign(
    **{"Patient.ID": pd.array([f"P{k}" for k in range(40)], dtype="string")},
    visit=pd.date_range("2020-01-01", periods=40),
    born=pd.date_range("1950-01-01", periods=40).astype(str).astype("string"),
    weight=pd.array(["71,5"] * 40, dtype="string"),
)
LATER = pd.Timestamp("2021-01-01")
UNUSABLE = "If no record could be used, this page would look the same: run check() first."
WRONG = [
    (lambda: FIT.to_latex, "fit.tidy().to_latex()"),
    (lambda: FIT.to_markdown, "fit.tidy().to_markdown()"),
    (lambda: FIT.ci, "did you mean conf_int?"),
    (lambda: FIT.coefficients, "did you mean coef?"),
    (lambda: FIT.std_error, "did you mean bse?"),
    (lambda: FIT.pvalue, "did you mean pvalues?"),
    (lambda: FIT.conf_int(level=0.99), "it takes alpha=0.01 for a level of 0.99"),
    (lambda: FIT.confint(alpha=0.01), "it takes level=0.99 for a level of 0.99"),
    (lambda: FIT.tidy(level=0.99), "it takes conf_level=0.99"),
    (lambda: FIT.predict(clinic(), level=0.99), "it takes interval=0.99"),
]
REFUSED = [
    ("y ~ .", {}, "columns 'Patient.ID', 'visit', 'born', 'weight'"),
    ("y ~ . - visit", {}, "as in . - Patient.ID - born - weight"),
    ("y ~ `Patient.ID`", {}, "leave it out, as in . - Patient.ID"),
    ("y ~ visit", {}, "count days"),
    ("y ~ visit", {"visit": ("2020-01-01", "2021-01-01")}, "count days"),
    ("y ~ visit", {"visit": (LATER, LATER)}, "count days"),
    ("y ~ weight", {"weight": (0, 200)}, "x.str.replace(',', '.')"),
    ("y ~ I(weight / 2)", {}, "pass numbers"),
    ("y ~ scale(age)", {}, 'which bounds={"age": (lo, hi)} centres and scales already'),
    ("y ~ I(born == '1950-01-01')", {}, 'levels={"born": [...]}'),
    ("age ~ dose", {}, "declared on (18, 90)"),
    ("age > 91 ~ dose", {}, "is false for all values that are declared"),
    ("smoker %in% c('no', 'yes') ~ dose", {}, "is true for all values that are declared"),
    ("y ~ dose + subset(age > 91)", {}, "is false for all values that are declared"),
]


@pytest.mark.parametrize(("ask", "says"), WRONG, ids=[says for _, says in WRONG])
def test_a_wrong_name_is_told_the_right_one(ask, says):
    with pytest.raises((AttributeError, PrivateLRError), match=re.escape(says)):
        ask()


@pytest.mark.parametrize(("formula", "bounds", "says"), REFUSED)
def test_what_is_of_no_use_by_its_type_is_refused_unpaid(formula, bounds, says):
    ledger, declared = Ledger(1.0), {**SCHEMA, "bounds": {**SCHEMA["bounds"], **bounds}}
    with pytest.raises(PrivateLRError, match=re.escape(says)):
        dplr(formula, VISITS, 1.0, ledger=ledger, **declared)
    assert not ledger.entries


def test_the_demo_on_a_plain_text_column_needs_levels():
    iris, public = load_dataset("iris"), load_schema("iris")
    assert iris["Species"].dtype == "category"
    plain, bounds = iris.astype({"Species": str}), {"bounds": public["bounds"]}
    for data in (iris, plain):
        dplr("Species != 'setosa' ~ .", data, 1.0, **public)
    with pytest.raises(PrivateLRError, match=re.escape('declare levels={"Species": [...]}')):
        dplr("Species != 'setosa' ~ .", plain, 1.0, **bounds)
    for mistyped in ("Species != 'Setosa' ~ .", "Sepal.Width > 3 ~ I(Species == 'Setosa')"):
        with pytest.raises(PrivateLRError, match=r"did you mean 'setosa'\?"):
            dplr(mistyped, iris, 1.0, **bounds)
    with pytest.raises(PrivateLRError, match=r"did you mean 'setosa'\?"):
        dplr("Sepal.Width > 3 ~ Sepal.Length", iris, 1.0, subset="Species != 'Setosa'", **bounds)


def test_every_page_says_that_it_cannot_tell_whether_a_record_was_used():
    iris, public = load_dataset("iris"), load_schema("iris")
    fits = [
        FIT,
        dplr(FORMULA, clinic(), 1.0, **SCHEMA),
        dplr("y ~ age + dose", clinic(), 1.0, **BY_SMOKER),
        dpsimplex(FORMULA, clinic(), 1.0, **SCHEMA),
        dpmultinom("Species ~ Petal.Width", iris, 1.0, **public),
    ]
    for fit in fits:
        # a card of strata has a card for each of them
        assert isinstance(fit, SelectedFit) or UNUSABLE in " ".join(fit.card().split())
        for page in (str(fit), fit._repr_html_()):
            assert " ".join(page.split()).count(UNUSABLE) == 1
    for page in (compare(FIT, FIT), fits[2].summary(), compare(FIT, other := fits[1])):
        assert " ".join(str(page).split()).count(UNUSABLE) == 1
    plain = dplr(FORMULA, clinic(), 0, **SCHEMA)
    assert UNUSABLE in " ".join(str(compare(plain, other)).split())
    for page in (plain, plain.card(), compare(plain, plain)):
        assert UNUSABLE not in " ".join(str(page).split())


def test_a_release_is_replaced_only_where_that_is_asked_for(tmp_path):
    path = tmp_path / "release.json"
    for release in (
        FIT,
        dplr("y ~ age + dose", clinic(), 1.0, **BY_SMOKER),
        FIT.private_roc(clinic(), 1),
    ):
        path.write_bytes(b"what was there")
        with pytest.raises(PrivateLRError, match="exists, and overwrite=True replaces it"):
            release.save(path)
        assert path.read_bytes() == b"what was there"
        release.save(path, overwrite=True)
        assert str(load(path).guarantee) == str(release.guarantee)


def test_help_begins_with_what_people_call():
    page = pydoc.render_doc(FIT, renderer=pydoc.plaintext)
    (first, *_) = re.findall(r"\n \|  (\w+)\(", page.partition("Methods defined here:")[2])
    assert first == "anova"
    with pytest.raises(AttributeError, match="a fit does not change"):
        FIT.coef = 1


def test_a_plan_takes_the_terms_that_anova_prints_and_a_large_c_index():
    declared = {"bounds": {"age": (18, 90)}, "levels": {"race": ["a", "b", "c"]}}
    study = plan("y ~ age + race", 2000, spend="inference", c_index=0.98, **declared)
    assert np.isfinite(study.errors.sd).all()
    assert rows_of(study.study, "race") == [2, 3]
    with pytest.raises(PrivateLRError, match=r"did you mean 'race'\?"):
        study.needed_eps(2.0, "rice")
