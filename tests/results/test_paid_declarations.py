"""A fit lists what was paid for its bounds and levels: on its page, its card, and in its file."""

import copy
import json
import pickle

import numpy as np
import pytest
from frames_for_laws import SCHEMA, clinic_by_age

import privatelr as lr
from privatelr.results.release_files import content_hash, release_document

FORMULA, MANY = "y ~ age + smoker", 600


@pytest.fixture(scope="module")
def frame():
    return clinic_by_age(MANY).assign(who=np.arange(MANY) // 2, y=lambda one: one["y"] == 1)


@pytest.fixture(scope="module")
def bounds(frame):
    return lr.suggest_bounds(frame, {"age": (0, 200), "dose": (-50, 50)}, 2.0)


@pytest.fixture(scope="module")
def levels(frame):
    return lr.levels_from(frame, "smoker", 1.0, 1e-6)


def fitted(frame, formula=FORMULA, levels=SCHEMA["levels"], **declared):
    levels = {**levels, "y": [0, 1]}
    return lr.dplr(
        formula, frame, eps=4.0, levels=levels, **{"bounds": SCHEMA["bounds"], **declared}
    )


def lines(fit):
    return " ".join(str(fit).split()), " ".join(fit.card().split())


def test_both_prices_are_on_page_and_card(frame, bounds, levels):
    for shown in lines(fitted(frame, bounds=bounds, levels=levels)):
        assert "of 'age', 'dose' were paid separately: epsilon = 2 (pure), of n = 600" in shown
        assert "of 'smoker' were paid separately: epsilon = 1, delta = 1e-06" in shown
        assert "epsilon = 7, delta = 1e-06 (approximate), for the fit and these" in shown


def test_a_declaration_that_cost_nothing_changes_nothing(frame):
    fit = fitted(frame)
    for shown in lines(fit):
        assert "paid separately" not in shown
        assert "In all" not in shown
    assert "paid" not in release_document(fit)["call"]["design"]


@pytest.mark.parametrize("model", [lr.dplr, lr.dpsvm, lr.dplpsvm, lr.dpsimplex, lr.dpmultinom])
def test_every_model_lists_them(model, frame, bounds):
    formula = "smoker ~ age" if model is lr.dpmultinom else "y ~ age"
    levels = {"smoker": ["no", "yes", "former"]}
    found = model(formula, frame, eps=4.0, bounds=bounds, levels=levels)
    for shown in lines(found):
        assert "paid separately: epsilon = 2 (pure)" in shown
        whole = shown.partition("In all")[2].partition(", for the fit and these")[0]
        assert whole.strip(" |").startswith("epsilon = 6")


def test_merging_keeps_the_price_of_what_is_used(frame, bounds):
    merged = {**bounds, "dose": (0, 1)}
    assert "epsilon = 6 (pure), for" in lines(fitted(frame, bounds=merged))[0]
    own = {**bounds, "age": (18, 90)}
    assert "paid separately" not in lines(fitted(frame, "y ~ age", bounds=own))[0]
    assert "epsilon = 6 (pure), for" in lines(fitted(frame, "y ~ age + dose", bounds=own))[0]


def test_one_payment_counts_once_and_two_count_twice(frame, bounds):
    again = lr.suggest_bounds(frame, {"age": (0, 200), "dose": (-50, 50)}, 2.0)
    both = {"age": bounds["age"], "dose": again["dose"]}
    assert "epsilon = 6 (pure), for" in lines(fitted(frame, "y ~ age + dose", bounds=bounds))[0]
    assert "epsilon = 8 (pure), for" in lines(fitted(frame, "y ~ age + dose", bounds=both))[0]


def test_other_neighbours_have_no_promise_in_one_number(frame, bounds):
    about = {"person": "who", "records_per_person": 2}
    for shown in lines(fitted(frame, bounds=bounds, **about)):
        assert "paid separately: epsilon = 2 (pure), of n = 600 records" in shown
        assert "no promise in one number" in shown
    of_persons = lr.suggest_bounds(frame, {"age": (0, 200)}, 4.0, person="who")
    shown = lines(fitted(frame, bounds=of_persons, **about))[0]
    assert "epsilon = 4 (pure), of m = 300 persons" in shown
    assert "epsilon = 8 (pure), for the fit and these" in shown


@pytest.mark.filterwarnings("ignore:seed=")
def test_a_seed_of_a_suggestion_leaves_no_promise_of_all(frame):
    seeded = lr.suggest_bounds(frame, {"age": (0, 200)}, 2.0, seed=1)
    fit = fitted(frame, bounds=seeded)
    assert fit.guarantee == lr.PureDP(4.0)
    shown = lines(fit)[0]
    assert "of 'age' have no promise (void: seeded noise" in shown
    assert "In all no promise for the fit and these together" in shown


def test_the_file_has_what_was_paid(frame, bounds, levels, tmp_path):
    path, fit = tmp_path / "fit.json", fitted(frame, bounds=bounds, levels=levels)
    fit.save(path)
    document = json.loads(path.read_bytes())
    assert [one["columns"] for one in document["call"]["design"]["paid"]] == [
        ["age", "dose"],
        ["smoker"],
    ]
    found = lr.load(path)
    assert "epsilon = 7, delta = 1e-06" in lines(found)[0]
    found.save(tmp_path / "again.json")
    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()
    for change, words in (
        ({"columns": ["other"]}, "paid takes payments for some of the variables"),
        ({"n": 0}, "paid"),
        ({"identifier": "A" * 32}, "identifier"),
        ({"guarantee": {"kind": "pure", "epsilon": -1.0, "neighbours": "REPLACE_ONE"}}, "epsilon"),
        ({"kind": "prices"}, "kind"),
    ):
        edited = copy.deepcopy(document)
        edited["call"]["design"]["paid"][0].update(change)
        edited["sha256"] = content_hash(edited)
        path.write_text(json.dumps(edited), encoding="utf-8")
        with pytest.raises(lr.ReleaseFileError, match=words):
            lr.load(path)


def words(text):
    return " ".join(str(text).split())


def test_a_choice_lists_what_its_candidates_were_paid_for(frame, bounds, levels):
    """A declaration that several candidates use counts once, on page and card."""
    fits = {
        "small": fitted(frame, "y ~ age", bounds=bounds),
        "full": fitted(frame, bounds=bounds, levels=levels),
    }
    chosen = lr.choose(fits, frame, 0.5)
    assert chosen.guarantee == lr.PureDP(8.5)
    for shown in (words(chosen), words(chosen.card())):
        own = shown.partition("The chosen fit")[0]
        assert own.count("of 'age', 'dose' were paid separately: epsilon = 2 (pure)") == 1
        assert own.count("of 'smoker' were paid separately") == 1
        total = "epsilon = 11.5, delta = 1e-06 (approximate), for the fits, the choice and these"
        assert total in own


def test_a_comparison_lists_each_payment_once(frame, bounds):
    again = lr.suggest_bounds(frame, {"age": (0, 200)}, 1.0)
    fits = [fitted(frame, "y ~ age", bounds=bounds) for _ in range(2)]
    shown = words(lr.compare(fits))
    assert shown.count("Bounds of 'age', 'dose' were paid separately: epsilon = 2 (pure)") == 1
    assert "In all: epsilon = 10 (pure), for the fits and these" in shown
    shown = words(lr.compare(*fits, fitted(frame, "y ~ age", bounds=again)))
    assert "In all: epsilon = 15 (pure)" in shown
    assert "In all" not in words(lr.compare(fitted(frame), fitted(frame)))


def counted_once(shown, kind):
    return words(shown).count(f"{kind} of") == 1


def test_one_release_counts_once_in_memory_and_from_its_file(frame, bounds, levels, tmp_path):
    for made, kind, name in ((bounds, "Bounds", "bounds"), (levels, "Levels", "levels")):
        made.save(tmp_path / "made.json", overwrite=True)
        read = lr.load(tmp_path / "made.json")
        assert read.payment == made.payment
        fits = [fitted(frame, **{name: one}) for one in (made, read)]
        fits[1].save(tmp_path / "fit.json", overwrite=True)
        assert counted_once(lr.compare(*fits, lr.load(tmp_path / "fit.json")), kind)
    used = {"age": bounds["age"], "dose": pickle.loads(pickle.dumps(bounds))["dose"]}
    shown = words(fitted(frame, "y ~ age + dose", bounds=used))
    assert "In all epsilon = 6 (pure), for" in shown


def test_releases_that_look_alike_count_twice(frame, tmp_path):
    """Also through files, and whatever they found."""
    made = [lr.suggest_bounds(frame, {"age": (0, 200)}, 2.0) for _ in range(2)]
    object.__setattr__(made[1], "ranges", dict(made[0].ranges))
    for place, one in enumerate(made):
        one.save(tmp_path / f"{place}.json")
    read = [lr.load(tmp_path / f"{place}.json") for place in range(2)]
    for pair in (made, read):
        shown = words(lr.compare([fitted(frame, "y ~ age", bounds=one) for one in pair]))
        assert "In all: epsilon = 12 (pure)" in shown


def test_a_changed_end_keeps_its_price_by_changed(frame, bounds):
    own = bounds.changed("age", (0, bounds["age"][1]))
    fit = fitted(frame, "y ~ age", bounds={"age": own})
    assert fit.spec.paid == (bounds.payment,)
    assert fit.spec.variables["age"].bounds == (0, bounds["age"][1])
    with pytest.raises(KeyError):
        bounds.changed("height", (0, 1))


def test_declarations_join_others_by_a_bar_and_keep_their_price(frame, bounds, levels):
    for both in (bounds | {"dose": (0, 1)}, {"dose": (0, 1), "age": (0, 9)} | bounds):
        assert fitted(frame, "y ~ age", bounds=both).spec.paid == (bounds.payment,)
    assert (bounds | {"dose": (0, 1)})["dose"] == (0, 1)
    assert ({"dose": (0, 1)} | bounds)["dose"] == bounds["dose"]
    assert fitted(frame, levels=levels | {}, bounds=bounds).spec.paid[1:] == (levels.payment,)
    with pytest.raises(TypeError):
        bounds | [1]
