"""A fit that was read from a file tells what was recomputed, and what is its writer's word."""

import json
import re

import pytest
from frames_for_laws import clinic, fit_clinic

from privatelr import ZCDP, Ledger, PrivacyWarning, PureDP, dplpsvm, dpsimplex, load
from privatelr.results.release_files import content_hash
from privatelr.selection.selected_fit import SelectedFit

FITS = {
    "noise": {},
    "inference": {"spend": "inference"},
    "output": {"op": False, "delta": 1e-6},
    "ledger": {"ledger": True},
    "program": {"model": dplpsvm, "eps": ZCDP(0.5)},
    "simplex": {"model": dpsimplex, "ledger": True},
    "plain": {"eps": 0},
}


def made(options):
    options = {**options, "ledger": Ledger(2.0)} if options.get("ledger") else options
    return fit_clinic(clinic(), **options)


@pytest.fixture(params=FITS, ids=str)
def both(request, tmp_path):
    """A fit, and the same one read from its file."""
    fit = made(FITS[request.param])
    fit.save(tmp_path / "model.json")
    return fit, load(tmp_path / "model.json")


def relabelled(path):
    """Write over a seeded release one that says that the operating system drew its noise."""
    document = json.loads(path.read_text(encoding="utf-8"))
    target = document["call"]["promise"]
    document["guarantee"] = target
    document["randomness"] = "operating system"
    document["notice"] = (
        f"covered by {PureDP(target['epsilon'])}; holds no number computed from records without "
        "noise"
    )
    document["sha256"] = content_hash(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def words(text):
    return " ".join(re.sub(r"\\(.)", r"\1", text).split())


def test_a_relabelled_file_is_called_its_writers_word(tmp_path):
    """No reader can tell that its noise was seeded, so every view says that none can."""
    path = tmp_path / "model.json"
    with pytest.warns(PrivacyWarning, match="seed"):
        fit_clinic(clinic(), seed=1).save(path, overwrite=True)
    relabelled(path)
    forged = load(path)
    assert forged.guarantee == PureDP(1.0)
    drawn = next(s for s in forged.origin.stated if "operating system" in s)
    assert "No file can show how its noise was drawn" in drawn
    card = words(forged.card())
    assert "Stated by the writer of the file, and not checkable:" in card
    assert drawn in card
    assert "Randomness | drawn from the operating system, and not kept; so its file states" in card
    for page in (str(forged), forged._repr_html_()):
        assert "read from a file; see fit.origin" in words(page)


def test_card_and_page_have_the_sentences_of_the_record(both):
    fit, loaded = both
    assert fit.origin is None
    assert "Source " not in str(fit)
    assert "Source      read from a file" in str(loaded)
    for one, heading in (
        (fit, "What can be checked in the release file"),
        (loaded, "What was checked when the release file was read"),
    ):
        card, page = words(one.card()), one.card("html")
        assert f"## {heading}" in card
        assert f"<h2>{heading}</h2>" in page
        for sentence in (*loaded.origin.recomputed, *loaded.origin.stated):
            assert f"- {sentence}" in card
            assert f"<li>{sentence}</li>" in page
            assert sentence in words(str(loaded.origin).replace("\n- ", " ").replace("\n  ", " "))
    assert "so its file states" not in fit.card()


def test_every_sentence_is_about_this_fit(both):
    fit, loaded = both
    recomputed, stated = " ".join(loaded.origin.recomputed), " ".join(loaded.origin.stated)
    private = fit.guarantee.neighbours is not None and str(fit.guarantee).startswith(("eps", "rho"))
    chosen = isinstance(fit, SelectedFit)
    parts = not chosen and fit.release.moments is not None
    assert ("enough for" in recomputed) == private
    assert ("multiple of the stated rounding" in recomputed) == (private and not chosen)
    assert ("number of choices" in recomputed) == (private and chosen)
    assert ("parts add up" in recomputed) == parts
    assert ("ledger entry" in recomputed) == (fit.release.entry is not None)
    assert ("A ledger was charged" in stated) == (fit.release.entry is not None)
    assert ("bounds, the levels and lambda were chosen" in stated) == private
    assert "a table of 40 records" in stated
    assert "It has no date" in stated
    assert all(len(line) <= 79 for line in str(loaded.origin).splitlines())


def test_the_programs_on_the_card_are_those_of_the_file(tmp_path):
    path = tmp_path / "model.json"
    fit_clinic(clinic()).save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["written_by"]["scipy"]
    document["written_by"] |= {"privatelr": "0.7.3", "a library of tomorrow": "1.0"}
    document["sha256"] = content_hash(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    loaded = load(path)
    assert dict(loaded.origin.written_by) == document["written_by"]
    assert "privatelr 0.7.3, " in words(loaded.card())
    assert "a library of tomorrow 1.0" in words(loaded.card())
