"""What a fit has, strata and a fit of several classes have too, or one sentence says why not."""

import inspect

import numpy as np
import pandas as pd
import pytest

import privatelr as lr
from privatelr import Fit, PrivateLRError, compare, dplr, dpmultinom
from privatelr.privacy import PureDP

N = 3000
PUBLIC = {
    "bounds": {"age": (20, 80), "dose": (0, 5)},
    "levels": {"sex": ["female", "male"], "stage": ["one", "two", "three"]},
}


def made(n=N, seed=1):
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20, 80, n), rng.uniform(0, 5, n)
    frame = pd.DataFrame({"age": age, "dose": dose, "sex": rng.choice(["female", "male"], n)})
    slope = np.where(frame["sex"] == "male", -1, 1)
    frame["y"] = rng.random(n) < 1 / (1 + np.exp(-slope * (age - 50) / 12))
    links = np.column_stack([np.zeros(n), 0.05 * (age - 50), -0.05 * (age - 50)])
    place = (links + rng.gumbel(size=links.shape)).argmax(axis=1)
    return frame.assign(stage=np.array(["one", "two", "three"])[place])


FRAME = made()
STRATA = dplr("y ~ age + dose", FRAME, 2, by="sex", spend="inference", **PUBLIC)
ALONE = dplr("y ~ age + dose", FRAME, 2, by="sex", **PUBLIC)
CLASSES = dpmultinom("stage ~ age + dose", FRAME, 2, **PUBLIC)
ONE = dplr("y ~ age + dose", FRAME, 2, spend="inference", **PUBLIC)
PUBLIC_NAMES = [name for name in dir(Fit) if not name.startswith("_")]
ARGUMENTS = {
    **{name: ("age",) for name in ("plot_term", "wald_test", "deviance_test", "contrasts")},
    **{name: (FRAME.head(3),) for name in ("predict", "augment", "model_matrix", "private_roc")},
    **{"t_test": ("age",), "bounded": (np.zeros((1, 2)),)},
}


@pytest.mark.parametrize("name", PUBLIC_NAMES)
@pytest.mark.parametrize("fits", [STRATA, ALONE, CLASSES], ids=["strata", "alone", "classes"])
def test_every_attribute_of_a_fit_is_there_or_says_why_not(name, fits, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    arguments = {"save": (tmp_path / "m.json",), **ARGUMENTS}.get(name, ())
    options = {"eps": 1.0} if name.startswith("private_") else {}
    sentence = ""
    try:
        found = getattr(fits, name)
        if inspect.isroutine(found):
            found(*arguments, **options)
    except PrivateLRError as refusal:
        sentence = str(refusal)
    # about this kind of object, or what each fit without inference says
    about = ("stratum", "strata", "several classes", "two classes", "training data", "spend")
    assert sentence == "" or any(word in sentence for word in about)
    assert "\n" not in sentence


# -- strata ---------------------------------------------------------------------------------------


def test_tables_of_strata_are_those_of_each_fit_below_each_other():
    found = STRATA.conf_int(0.1, target="penalised")
    assert found.index.names == ["stratum", "term"]
    own = STRATA["male"].conf_int(0.1, target="penalised")
    pd.testing.assert_frame_equal(found.loc["male"], own, check_names=False)
    assert STRATA.contrasts("age - dose").loc["female"].shape[0] == 1
    assert list(STRATA.anova().loc["male"].index) == list(STRATA["male"].anova().index)
    assert STRATA.vcov().loc["male"].shape == (3, 3)


def test_a_table_of_strata_beside_other_fits():
    found = compare(STRATA)
    assert found.terms.headers == ("sex = female", "sex = male")
    assert found.guarantee == PureDP(2)
    beside = compare(STRATA, ONE)
    assert beside.terms.headers == ("(1): sex = female", "(1): sex = male", "(2)")
    assert beside.guarantee == PureDP(4)
    named = compare({"apart": STRATA, "together": ONE})
    assert named.terms.headers == ("apart: sex = female", "apart: sex = male", "together")
    assert str(compare(STRATA)) == str(STRATA.summary())
    assert compare([STRATA, STRATA["male"]]).guarantee == PureDP(2)


def test_dask_data_are_predicted_by_strata():
    dask = pytest.importorskip("dask.dataframe")
    odd = FRAME.assign(sex=FRAME["sex"].where(FRAME.index % 7 != 0, "other"))
    lazy = dask.from_pandas(odd, npartitions=3)
    for options in ({}, {"type": "classes"}, {"interval": 0.9}):
        found, expected = STRATA.predict(lazy, **options), STRATA.predict(odd, **options)
        assert hasattr(found, "compute")
        compared = found.compute()
        same = pd.testing.assert_series_equal
        if isinstance(expected, pd.DataFrame):
            same = pd.testing.assert_frame_equal
        same(compared, expected, check_dtype=False)
    with pytest.raises(lr.FormulaError, match="'sex'"):
        STRATA.predict(lazy[["age", "dose"]])


# -- several classes ------------------------------------------------------------------------------


def test_classes_are_compared():
    other = dpmultinom("stage ~ age", FRAME, 1, **PUBLIC)
    found = compare({"both": CLASSES, "age": other})
    assert found.guarantee == PureDP(3)
    assert found.terms.headers == ("both", "age")
    names = [name for name in found.terms.names if name]
    assert names[:2] == ["two: (Intercept)", "two: age"]
    frame = found.to_frame()
    own = frame[frame["fit"] == "both"]
    np.testing.assert_allclose(own["estimate"], CLASSES.coef.T.to_numpy().ravel())
    np.testing.assert_allclose(
        own["privacy_sd_limit"], CLASSES.privacy_sd_limit.T.to_numpy().ravel()
    )
    page = " ".join(str(found).split())
    assert "In braces, for fits without standard errors: the standard deviation that" in page
    assert "softmax" in page
    odds = compare(CLASSES, exponentiate=True).to_frame()["estimate"]
    np.testing.assert_allclose(odds, np.exp(own["estimate"]))
    assert compare(CLASSES, ONE).guarantee == PureDP(4)
    assert "Response of" in str(compare(CLASSES, ONE))
    for text in (found.as_text(), found.as_html()):
        assert "three: dose" in text


def test_the_noise_of_classes_is_at_most_its_limit():
    pd.testing.assert_frame_equal(CLASSES.privacy_sd, CLASSES.privacy_sd_limit)
    for name in ("bse", "pvalues"):
        with pytest.raises(lr.GuaranteeError, match="several classes"):
            getattr(CLASSES, name)
    with pytest.raises(lr.GuaranteeError, match=r"conf_int: .*several classes"):
        CLASSES.conf_int()


# -- plots ----------------------------------------------------------------------------------------


def test_a_term_has_a_line_for_each_stratum():
    pytest.importorskip("matplotlib").use("Agg")
    axes = STRATA.plot_term("age")
    lines = [line for line in axes.lines if len(line.get_xdata()) > 2]
    assert [line.get_label() for line in lines] == ["sex = female", "sex = male"]
    assert len(axes.collections) == 2
    for line, fit in zip(lines, STRATA.values(), strict=True):
        y = line.get_ydata()
        alone = fit.plot_term("age").lines[0].get_data()
        np.testing.assert_allclose(y, alone[1])
    rising, falling = (line.get_ydata()[-1] for line in lines)
    assert rising > 1 > -1 > falling
    assert axes.get_legend() is not None


def test_a_term_has_a_line_for_each_class():
    pytest.importorskip("matplotlib").use("Agg")
    axes = CLASSES.plot_term("age")
    lines = [line for line in axes.lines if len(line.get_xdata()) > 2]
    assert [line.get_label() for line in lines] == ["two", "three"]
    for line, level in zip(lines, ("two", "three"), strict=True):
        x, y = line.get_data()
        np.testing.assert_allclose(y, CLASSES.coef.loc["age", level] * (x - 50), atol=1e-9)
    assert axes.get_ylabel() == "log odds against one,\nbeside age = 50"
    assert "estimates alone" in axes.get_title()
