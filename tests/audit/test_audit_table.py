"""The audit of everything that is registered, its table, its picture, and the command."""

import builtins
import json
import math
import re
from dataclasses import replace

import docs
import numpy as np
import pytest
from broken_mechanisms import calibrated

from privatelr import audit, cli
from privatelr.audit import checks, run_audit
from privatelr.audit.audit_table import Audit, Row
from privatelr.audit.checks import (
    FULL,
    INTERCEPT_AND_SLOPE,
    ONE_COLUMN,
    QUICK,
    Check,
    Effort,
    Setting,
    could_not,
    label,
)
from privatelr.audit.density.loss import deep_pair, loss_of
from privatelr.errors import ArgumentError, MissingDependencyError, NotConvergedError
from privatelr.mechanisms import MECHANISMS, Mechanism
from privatelr.mechanisms.calibration import pure
from privatelr.numerics import LOSSES, SoftplusHinge
from privatelr.privacy import ZCDP, ApproxDP, NonPrivate, PureDP
from privatelr.privacy.noise import NoNoise

BRIEF = Effort((Setting(), Setting(12.0, 4.0, INTERCEPT_AND_SLOPE)), 0, 10_000, 1, 12, formulas=3)
GOOD = Row("objective", "logistic", "epsilon = 1", 1.0, 0.99, 1.0, "somewhere", 0.9)
WRONG = replace(GOOD, exact=1.3, loss="huber(0.5)")
PARTS = {"rows", "formula", "noise", "draws", "release", "choices", "answers", "ledger", "peers"}
PARTS |= {
    "bounds",
    "lengths",
    "ranges",
    "levels",
    "offset",
    "weights",
    "persons",
    "strata",
    "classes",
}
PARTS |= {"long", "source"}
COUNT = sum(1 + 2 * (kind is ApproxDP) for _, kind in MECHANISMS if kind is not NonPrivate)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr(checks, "QUICK", BRIEF)


# -- the audit --------------------------------------------------------------------------------


def test_a_wide_intercept_and_many_records_are_audited():
    seen = []
    wide = replace(BRIEF, settings=(Setting(12.0, 4.0, INTERCEPT_AND_SLOPE),))
    found = audit.run(effort=wide, losses=["logistic"], rng=rng(), report=seen.append)
    assert found.ok
    assert tuple(seen) == found.checks + found.rows
    pure = [row for row in found.rows if row.claim == "epsilon = 1" and row.buys == "coefficients"]
    assert all(row.attained > 0.999 for row in pure)


@pytest.mark.long
def test_every_registered_mechanism_and_loss_is_audited_and_stands():
    """The audit on the page about it, which takes a minute and is run here only."""
    page = docs.ROOT / "vignettes" / "auditing.md"
    document = docs.read(page.read_text(encoding="utf-8"), page.name)
    wrong = docs.wrong(document)
    assert not wrong, "\n".join(wrong)
    found = document.namespace["found"]
    assert found.ok
    assert {check.part for check in found.checks} == PARTS
    assert all(check.holds for check in found.checks)
    # what is searched for, how many checks there are of it, and what each attains at least
    sought = (
        ("persons", ": loss of a person", 2 * len(LOSSES), 0.75),
        ("persons", "Gaussian loss of a person", 3 * len(LOSSES), 0.25),
        ("strata", "loss of a person in three strata", len(LOSSES), 0.9),
        ("classes", "", 5, 0.85),
    )
    for part, words, count, least in sought:
        checks = [check for check in found.checks if check.part == part and words in check.subject]
        assert len(checks) == count, words
        assert min(check.found for check in checks) > least, words
    alone, both = (
        [row for row in found.rows if row.buys == buys] for buys in ("coefficients", "inference")
    )
    chosen = [row for row in found.rows if row.buys == "choices"]
    assert {row.loss for row in chosen} == {
        "worst margins, margin",
        "worst margins, count",
        *map(label, LOSSES.values()),
    }
    assert all(row.ratio > 0.3 for row in chosen if row.claim == "epsilon = 1")
    for rows in (alone, both):
        assert len(rows) == COUNT * len(LOSSES)
        assert {(row.placement, row.loss) for row in rows} == {
            (placement, label(loss)) for placement, _ in MECHANISMS for loss in LOSSES.values()
        }
    assert all(row.ratio <= 1 + 1e-6 for row in found.rows)
    assert all(0.999 < row.share <= 1 + 1e-6 for row in both)
    assert all(row.ratio > 0.99 for row in both if row.claim == "epsilon = 1")
    pure = [row for row in alone if row.claim == "epsilon = 1"]
    assert all(row.attained > 0.999 and row.sampled > 0.5 for row in pure)
    # tight, and never above: what the table says of the Huber loss
    assert {f"{row.ratio:.4f}" for row in pure if row.loss == "huber(0.5)"} == {"1.0000"}
    records = json.loads(found.to_json())
    checked, records = records[len(found.rows) :], records[: len(found.rows)]
    assert [record["verdict"] for record in records] == ["ok"] * len(found.rows)
    assert [record["subject"] for record in checked] == [check.subject for check in found.checks]
    assert [record["claim"] for record in records] == [row.claim for row in found.rows]
    unsampled = [record for record in records if "1e-06" in record["claim"]]
    assert [record["sampled"] for record in unsampled] == [None] * len(unsampled)
    assert [record["share"] is None for record in records] == [
        record["buys"] in ("coefficients", "choices") for record in records
    ]


def breaking(*given, **named):
    raise ZeroDivisionError("a secret")


def test_what_raises_is_a_verdict_and_never_a_traceback(monkeypatch):
    """Of every mechanism there is a line, and none of what the error said."""
    for key, honest in MECHANISMS.items():
        monkeypatch.setitem(MECHANISMS, key, Mechanism(breaking, honest.release))
    monkeypatch.setattr("privatelr.selection.simplex.calibrate_simplex", breaking)
    monkeypatch.setattr("privatelr.selection.multiplicative_weights.calibrate_program", breaking)
    seen = []
    found = audit.run(effort=replace(BRIEF, formulas=1), rng=rng(), report=seen.append)
    assert not found.ok
    assert len(seen) == len(found.rows) + len(found.checks)
    why = "could not be audited: ZeroDivisionError"
    assert {row.verdict for row in found.rows} == {why}
    assert {row.buys for row in found.rows} == {"coefficients", "scale", "inference", "choices"}
    failed = {check.part for check in found.checks if check.verdict == why}
    parts = {"rows", "formula", "offset", "weights", "persons", "strata", "noise", "release"}
    parts |= {"choices", "classes", "draws", "long", "source"}
    assert failed == {*parts, "ledger"}
    text = str(found)
    assert why in text
    assert "secret" not in text + found.to_json()


def test_a_rate_that_is_doubled_inside_is_a_verdict(monkeypatch):
    """The package refuses the calibration, and then there is nothing to search."""
    honest = pure.objective_rate
    monkeypatch.setattr(pure, "objective_rate", lambda *given: 2 * honest(*given))
    effort = Effort((Setting(),), 0, 500, 1, 4, choices=1)
    found = audit.run(effort=effort, losses=["huber"], rng=rng())
    verdicts = {row.verdict for row in found.rows if row.claim == "epsilon = 1"}
    assert not found.ok
    assert any(verdict.startswith("could not be audited") for verdict in verdicts)


@pytest.mark.parametrize("target", [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)], ids=str)
def test_a_distance_without_a_shield_is_a_violation(target):
    honest = calibrated(target)
    bare = replace(honest, shield=NoNoise(2))
    assert loss_of(deep_pair(honest), honest).holds
    assert not loss_of(deep_pair(bare), bare).holds


def test_arguments_are_checked():
    for epsilon in (0, 11, math.nan, "1"):
        with pytest.raises(ArgumentError, match="epsilon"):
            audit.run(epsilon)
    for unknown in ("squared", 3, None, ["huber"]):
        with pytest.raises(ArgumentError, match=r"losses: .* is none of 'logistic', 'huber'"):
            audit.run(losses=[unknown])


def test_settings_are_of_the_stated_radius():
    for effort in (QUICK, FULL):
        for setting in effort.settings:
            facts = setting.facts(LOSSES["logistic"])
            assert facts.radius == pytest.approx(setting.radius)
            if facts.blocks:
                length = math.hypot(*(block.bound for block in facts.blocks))
                assert length <= facts.radius
    assert set(map(str, FULL.settings)) > {str(QUICK.settings[0])}


# -- the table --------------------------------------------------------------------------------


def test_a_loss_is_named_with_its_parameters():
    named = {label(loss) for loss in LOSSES.values()}
    assert named == {"logistic", "huber(0.5)", "softplus(0.5)"}
    assert label(SoftplusHinge(0.125)) == "softplus(0.125)"


def test_a_setting_of_one_column_can_be_audited():
    """There are no opposed records there, and the Huber loss attains its bound all the same."""
    effort = Effort((Setting(shape=ONE_COLUMN),), 1, 20_000, 1, 10)
    found = audit.run(effort=effort, losses=["huber"], rng=rng())
    assert found.ok
    assert found.rows[0].ratio == pytest.approx(1, abs=1e-6)
    assert found.rows[0].sampled > 0.6


def test_the_table_fits_a_page():
    long = replace(
        GOOD,
        loss="softplus(0.5)",
        claim="epsilon = 0.01, delta = 1e-06",
        exact=1.2345e-7,
        sampled=math.nan,
    )
    text = str(Audit((GOOD, WRONG, long)))
    assert max(map(len, text.splitlines())) <= 100
    head, rule, good, wrong, other, *_ = text.splitlines()
    assert set(rule) == {"-"}
    assert good.endswith("ok")
    assert wrong.endswith("VIOLATION")
    assert " - " in other
    for name in ("exact", "of claim", "of bound", "sampled"):
        end = head.index(name) + len(name)
        assert good[end - 1].isdigit()
        assert good[end] == " "


def test_releases_with_moments_have_a_table_of_their_own():
    with_moments = replace(GOOD, buys="inference", share=0.5, loss="huber(0.5)")
    lines = str(Audit((GOOD, with_moments))).splitlines()
    heads = [line for line in lines if line.endswith("verdict")]
    assert ["coefficients" in head for head in heads] == [True, False]
    assert ["inference" in head for head in heads] == [False, True]
    end = heads[1].index("moments") + len("moments")
    assert lines[lines.index(heads[1]) + 2][:end].endswith("0.5000")
    assert "moments   share" in "\n".join(lines)
    assert "moments " not in str(Audit((GOOD,)))
    assert str(Audit((with_moments,))).splitlines()[0] == heads[1]


def test_checks_have_a_table_of_their_own():
    checks = (Check("rows", "frame", 0.0), Check("ledger", "sums", 1.2, 1.0), absent())
    assert [check.verdict for check in checks] == ["ok", "VIOLATION", "not installed"]
    assert not Audit((GOOD,), checks).ok
    assert Audit((GOOD,), (checks[0], checks[2])).ok  # what is absent is not wrong
    text = str(Audit((GOOD,), checks))
    assert re.search(r"ledger +sums +1.2 +1  VIOLATION", text)
    assert re.search(r"peers +OpenDP +- +-  not installed", text)
    assert "part" not in str(Audit((GOOD,)))
    assert str(Audit((), checks)).startswith("part")
    nan = Check("noise", "share", math.nan, 1.0)
    assert nan.verdict == "VIOLATION"


def absent():
    return Check("peers", "OpenDP", failure=could_not(MissingDependencyError("absent")))


def test_a_loss_without_limit_is_a_violation_in_every_form(tmp_path):
    broken = replace(GOOD, exact=math.inf, attained=math.inf)
    assert broken.verdict == replace(GOOD, exact=math.nan).verdict == "VIOLATION"
    record = json.loads(Audit((broken,)).to_json())[0]
    assert record["exact"] == record["attained"] == record["ratio"] == "inf"
    assert record["verdict"] == "VIOLATION"
    pytest.importorskip("matplotlib", reason="needs the extra [plots]")
    for rows in ((broken,), (GOOD, broken)):
        path = tmp_path / "audit.svg"
        Audit(rows).plot(path)
        assert "<!-- inf -->" in path.read_text(encoding="utf-8")


def test_a_bound_from_outputs_above_the_claim_is_a_violation():
    assert replace(GOOD, sampled=1.01).verdict == "VIOLATION"
    assert replace(GOOD, sampled=math.nan).verdict == "ok"


# -- the picture ------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "PNG"])
def test_plot(tmp_path, suffix):
    pytest.importorskip("matplotlib", reason="needs the extra [plots]")
    path = tmp_path / f"audit.{suffix}"
    Audit(
        (GOOD, WRONG, replace(GOOD, sampled=math.nan), replace(GOOD, buys="inference", share=1.0))
    ).plot(path)
    assert path.stat().st_size > 4000


def test_an_audit_is_drawn_on_axes_of_ones_own():
    pytest.importorskip("matplotlib", reason="needs the extra [plots]").use("agg")
    axes = Audit((GOOD, WRONG)).draw()
    titles = [label.get_text() for label in axes.get_yticklabels()]
    assert [GOOD.placement in titles[0], WRONG.claim in titles[1]] == [True, True]
    assert Audit((GOOD,)).draw(ax=axes) is axes
    with pytest.raises(ArgumentError, match="ax of type"):
        Audit((GOOD,)).draw(ax=3)


def test_plot_refuses_other_formats(tmp_path):
    with pytest.raises(ArgumentError, match=r"\.png"):
        Audit((GOOD,)).plot(tmp_path / "audit.txt")


def without_matplotlib(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)


def test_plot_without_matplotlib_says_what_to_install(tmp_path, monkeypatch):
    without_matplotlib(monkeypatch)
    with pytest.raises(MissingDependencyError, match=r"privatelr\[plots\]"):
        Audit((GOOD,)).plot(tmp_path / "audit.png")


# -- the command ------------------------------------------------------------------------------


def answer(monkeypatch, *rows):
    """Let the command meet these rows in the place of an audit."""
    asked = []

    def run(epsilon, *, effort, report):
        asked.append((epsilon, effort))
        for row in rows:
            report(row)
        return Audit(rows)

    monkeypatch.setattr(run_audit, "run", run)
    return asked


def test_the_command_prints_the_table(brief, capsys, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra [plots]")
    asked = answer(monkeypatch, GOOD)
    path = tmp_path / "audit.svg"
    assert cli.main(["audit", "--plot", str(path), "--eps", "0.5"]) == 0
    shown = capsys.readouterr()
    assert "verdict" in shown.out
    assert "audited: objective, logistic, epsilon = 1: ok" in shown.err
    assert path.exists()
    assert asked == [(0.5, BRIEF)]
    assert cli.main(["audit", "--full"]) == 0
    assert asked[1] == (1.0, FULL)


def test_the_command_fails_where_a_claim_is_wrong(capsys, monkeypatch):
    answer(monkeypatch, GOOD, WRONG)
    assert cli.main(["audit", "--json"]) == 1
    verdicts = [record["verdict"] for record in json.loads(capsys.readouterr().out)]
    assert verdicts == ["ok", "VIOLATION"]


@pytest.mark.parametrize(
    ("arguments", "word"), [(["--eps", "99"], "--eps takes"), (["--plot", "audit.txt"], "plot")]
)
def test_the_command_refuses_in_one_sentence(arguments, word, capsys):
    assert cli.main(["audit", *arguments]) == 2
    assert word in capsys.readouterr().err


def refused(arguments, capsys):
    assert cli.main(["audit", *arguments]) == 2
    return capsys.readouterr().err


def test_a_picture_that_cannot_be_drawn_is_refused_before_the_work(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs the extra [plots]")
    asked = answer(monkeypatch, GOOD)
    nowhere = str(tmp_path / "nowhere" / "audit.png")
    assert "in a directory that exists" in refused(["--plot", nowhere], capsys)
    without_matplotlib(monkeypatch)
    assert cli.main(["audit", "--plot", str(tmp_path / "audit.png")]) == 1
    assert "takes matplotlib" in capsys.readouterr().err
    assert asked == []


@pytest.mark.parametrize(("row", "status"), [(GOOD, 3), (WRONG, 1)])
def test_a_picture_that_is_not_written_hides_no_verdict(row, status, tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs the extra [plots]")
    answer(monkeypatch, row)
    path = tmp_path / "audit.png"
    path.mkdir()
    assert cli.main(["audit", "--plot", str(path)]) == status
    shown = capsys.readouterr()
    assert row.verdict in shown.out
    lines = [line for line in shown.err.splitlines() if not line.startswith("audited: ")]
    assert len(lines) == 1
    assert "was not written" in lines[0]


@pytest.mark.parametrize(("rows", "status"), [([GOOD], 3), ([GOOD, WRONG], 1), ([], 2)])
def test_an_audit_that_stops_shows_what_it_found(rows, status, capsys, monkeypatch):
    def run(epsilon, *, effort, report):
        for row in rows:
            report(row)
        raise NotConvergedError("audit: a minimiser was not found.")

    monkeypatch.setattr(run_audit, "run", run)
    if not rows:
        assert "was not found" in refused([], capsys)
        return
    assert cli.main(["audit", "--json"]) == status
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)) == len(rows)
    assert "the audit stopped: audit: a minimiser was not found." in shown.err


# -- longer, by hand --------------------------------------------------------------------------


@pytest.mark.full
def test_twenty_seeds_of_the_quick_audit():
    for seed in range(20):
        assert audit.run(effort=QUICK, rng=rng(seed)).ok


@pytest.mark.full
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_full_search(epsilon):
    effort = replace(FULL, trials=100_000, seeds=1)
    assert run_audit.run(epsilon, effort=effort, rng=rng()).ok
