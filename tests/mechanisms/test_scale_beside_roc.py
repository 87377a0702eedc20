"""Shares that buy a ROC curve leave a tenth of the coefficients' to the scale, if worth it."""

import pytest
from frames_for_laws import SCHEMA, clinic_by_age

import privatelr as lr
from privatelr.mechanisms.registry import shares_of
from privatelr.numerics import LOSSES
from privatelr.privacy import exact

WRITTEN = {"coefficients": 0.75, "roc": 0.25}


@pytest.mark.parametrize(
    "spend",
    [
        WRITTEN,
        {"coefficients": 0.6, "inference": 0.3, "roc": 0.1},
        {"coefficients": 0.6666666666666667, "roc": 0.3333333333333333},
        {"coefficients": 0.9999, "roc": 0.0001},
    ],
)
def test_only_the_share_of_the_coefficients_pays_for_the_scale(spend):
    found = shares_of(lr.PureDP(1.0), tuple(spend.items()), LOSSES["logistic"], scaled=True)
    assert sum(map(exact, found.values())) == 1
    for name, share in spend.items():
        if name != "coefficients":
            assert found[name] == pytest.approx(share, rel=1e-14)
    both = found["scale"] + found["coefficients"]
    assert both == pytest.approx(spend["coefficients"], rel=1e-15)
    assert found["scale"] == pytest.approx(spend["coefficients"] / 10, rel=1e-12)


def fitted(n=4000, spend=WRITTEN, model=lr.dplr, **options):
    price = {"eps": 2.0, **options}
    return model("y ~ age + dose", clinic_by_age(n), spend=spend, **{**SCHEMA, **price})


@pytest.mark.parametrize("model", [lr.dplr, lr.dpsvm])
@pytest.mark.parametrize("delta", [0.0, 1e-7])
def test_page_file_and_account_say_what_the_scale_costs(model, delta, tmp_path):
    fit = fitted(model=model, delta=delta)
    assert fit.scale is not None
    assert "Scale" in str(fit)
    fit.save(tmp_path / "fit.json")
    assert lr.load(tmp_path / "fit.json").scale.equals(fit.scale)
    if delta == 0:
        assert "scale epsilon = 0.15" in " ".join(str(fit).split())
        assert fit.release.histogram.calibration.target == lr.PureDP(0.5)
        ledger = lr.Ledger(2.0)
        assert fitted(model=model, ledger=ledger).release.entry.guarantee == lr.PureDP(2.0)


def test_a_plan_has_the_same_shares():
    outlook = lr.plan("y ~ age + dose", 4000, 2.0, bounds=SCHEMA["bounds"], spend=WRITTEN)
    assert outlook.calibration.scale.target == lr.PureDP(0.15)
    assert outlook.calibration.histogram.target == lr.PureDP(0.5)
    assert "scale epsilon = 0.15" in " ".join(str(outlook).split())


@pytest.mark.parametrize(
    ("n", "options"),
    [
        (4000, {"do_scale": False}),
        (4000, {"row_norm": 1.0}),
        (4000, {"spend": {"coefficients": 0.6, "inference": 0.4}}),
        (40, {}),
    ],
)
def test_the_scale_is_left_out_where_it_always_was(n, options):
    assert fitted(n, **options).scale is None
