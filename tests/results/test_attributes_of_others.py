"""Attributes that fits of other packages have: each is here as well, or is told what to call."""

import copy
import pickle
import re
from functools import cache
from pathlib import Path

import pytest
from frames_for_laws import FORMULA, SCHEMA, clinic

import privatelr
from privatelr.arguments import OTHERWISE, suggests_attributes

pytestmark = pytest.mark.quick
KINDS = ("Fit", "MultinomialFit", "SelectedFit", "Strata")
PAGES = Path(__file__).resolve().parents[2] / "vignettes"


@cache
def fits():
    data = clinic(n=300)
    several = data.assign(group=["a", "b", "c"] * 100)
    levels = {**SCHEMA["levels"], "group": ["a", "b", "c"]}
    return {
        "Fit": privatelr.dplr(FORMULA, data, eps=2.0, spend="inference", **SCHEMA),
        "MultinomialFit": privatelr.dpmultinom(
            "group ~ age", several, eps=2.0, bounds=SCHEMA["bounds"], levels=levels
        ),
        "SelectedFit": privatelr.dplpsvm(FORMULA, data, eps=2.0, rounds=5, **SCHEMA),
        "Strata": privatelr.dplr("y ~ age", data, by="smoker", eps=2.0, **SCHEMA),
    }


def listed():
    """The attributes in the first column of the tables of both pages."""
    pages = [(PAGES / f"from-{name}.md").read_text(encoding="utf-8") for name in ("python", "r")]
    cells = re.findall(r"^\| (.+?) \|", "\n".join(pages), re.MULTILINE)
    found = re.findall(r"`(?:fit\.|(?:model)?\$)(\w+)\b(?!\.)", "\n".join(cells))
    return sorted({*found, *re.findall(r"`(predict_proba|decision_function|\w+_)\b", str(cells))})


def test_what_the_pages_list_is_there_or_told():
    assert {"get_margeff", "bse", "coef_", "convergence", "predict_proba"} <= {*listed()}
    fit = fits()["Fit"]
    assert [name for name in listed() if not hasattr(fit, name) and name not in OTHERWISE] == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_attribute_of_other_packages_is_told_in_one_sentence(kind):
    fit = fits()[kind]
    told = [name for name in OTHERWISE if name not in dir(fit)]
    assert len(told) > 30
    for name in told:
        with pytest.raises(AttributeError) as caught:
            getattr(fit, name)
        assert str(caught.value) == (
            f"{kind!r} object has no attribute {name!r}; {OTHERWISE[name]}."
        )
        assert not hasattr(fit, name)
        assert getattr(fit, name, 3) == 3


def test_every_sentence_is_needed_and_names_what_there_is():
    for name, why in OTHERWISE.items():
        assert any(name not in dir(fit) for fit in fits().values()), name
        for call in re.findall(r"\bfit\.(\w+)", why):
            assert call in dir(privatelr.Fit), why
        for call in re.findall(r"\bprivatelr\.(\w+)", why):
            assert call in privatelr.__all__, why
    chooses = {name for name, why in OTHERWISE.items() if "chooses its columns" in why}
    assert [name for name in chooses if not hasattr(fits()["Fit"], name)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_copies_pickles_and_listings_go_on(kind):
    fit = fits()[kind]
    for other in (copy.copy(fit), copy.deepcopy(fit), pickle.loads(pickle.dumps(fit))):
        assert type(other) is type(fit)
        assert str(other.coef) == str(fit.coef)
    assert not {*OTHERWISE} & {name for name in dir(fit) if not hasattr(type(fit), name)}
    assert "get_margeff" not in dir(fit)
    with pytest.raises(AttributeError, match=f"'{kind}' object has no attribute 'never'$"):
        fit.never  # noqa: B018


def test_nothing_of_a_fit_is_read_to_tell_it():
    empty = object.__new__(privatelr.Fit)  # it has no field, so that reading one would fail
    with pytest.raises(AttributeError, match="average_marginal_effects"):
        empty.get_margeff  # noqa: B018
    with pytest.raises(AttributeError, match="spec"):
        empty.formula  # noqa: B018  # the error is of what was missing, and not of `formula`


def test_an_error_within_a_property_is_not_hidden():
    @suggests_attributes
    class Fragile:
        @property
        def coef(self):
            return self.inner

    with pytest.raises(AttributeError, match="has no attribute 'inner'"):
        Fragile().coef  # noqa: B018
