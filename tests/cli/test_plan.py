"""``plan``: the page, JSON and picture of a study, from a command line without a table."""

import json
import math

import pytest

import privatelr
from privatelr import cli, progress_line
from privatelr.cli.outcomes import in_shell

FORMULA = "chd ~ age + famhist"
STUDY = ["plan", FORMULA, "--n", "30000"]
DECLARED = ["--bounds", "age=15:65", "--levels", "famhist=Absent,Present"]
PUBLIC = {"bounds": {"age": (15, 65)}, "levels": {"famhist": ["Absent", "Present"]}}


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    """No line about how far a slow page is, which a busy machine would show."""
    monkeypatch.setattr(progress_line, "OFTEN", math.inf)


def run(*arguments):
    """Exit status of a command line, whether it is returned or raised."""
    try:
        return cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return stop.code


def printed(capsys, *arguments):
    assert run(*arguments) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return shown.out


def found(capsys, *arguments):
    """The numbers of a plan that spends nothing on inference, which is quick."""
    return json.loads(printed(capsys, *arguments, "--spend", "coefficients=1", "--json"))


def test_the_page_is_that_of_the_function(capsys):
    page = printed(capsys, *STUDY, "--eps", "1", *DECLARED)
    assert page.strip() == in_shell(privatelr.plan(FORMULA, n=30_000, eps=1.0, **PUBLIC)).strip()


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        ([], {}),
        (["--rho", "0.1"], {"eps": privatelr.ZCDP(0.1)}),
        (
            ["--eps", "2", "--delta", "1e-6", "--lambda", "0.1"],
            {"eps": 2, "delta": 1e-6, "lambda_": 0.1},
        ),
        (["--method", "svm", "--output-perturbation"], {"loss": "softplus", "op": False}),
        (["--method", "svm", "--analysis", "cms11"], {"loss": "huber", "analysis": "cms11"}),
        (["--method", "svm", "--eps", "0"], {"loss": "huber", "eps": 0}),
        (["--do-scale", "no"], {"do_scale": False}),
        (["--method", "svm", "--loss", "softplus", "--h", "0.2"], {"loss": "softplus", "h": 0.2}),
        (["--row-norm", "1", "--intercept-scale", "1"], {"row_norm": 1, "intercept_scale": 1}),
        (
            ["--balance", "0.1", "--spread", "0.2", "--c-index", "0.6", "--correlation", "0"],
            {"balance": 0.1, "spread": 0.2, "c_index": 0.6, "correlation": 0},
        ),
        (["--spread", "age=0.2"], {"spread": {"age": 0.2}}),
    ],
)
def test_options_are_the_keywords_of_the_function(options, keywords, capsys):
    planned = privatelr.plan(FORMULA, 30_000, **keywords, spend={"coefficients": 1}, **PUBLIC)
    assert found(capsys, *STUDY, *DECLARED, *options) == json.loads(planned.to_json())


def test_inference_is_bought_unless_told_otherwise(capsys):
    shown = json.loads(printed(capsys, "plan", "3", "--n", "30000", "--json"))
    assert shown["formula"] == "y ~ X1 + X2"
    assert shown["parts"]["inference"]["epsilon"] == 0.35
    assert shown["terms"][1]["width"] > 0


def test_a_schema_file_declares(capsys, tmp_path):
    (tmp_path / "chd.toml").write_text(
        '[bounds]\nage = [15, 65]\nsbp = [90, 220]\n[levels]\nfamhist = ["Absent", "Present"]\n',
        encoding="utf-8",
    )
    study = [*STUDY, "--spread", "0.5"]
    declared = found(capsys, *study, "--schema", tmp_path / "chd.toml")
    assert declared == found(capsys, *study, *DECLARED)
    wider = found(capsys, *study, "--schema", tmp_path / "chd.toml", "--bounds", "age=0:100")
    assert wider["terms"][1]["privacy_sd"] == pytest.approx(declared["terms"][1]["privacy_sd"] / 2)


def test_what_is_needed(capsys, monkeypatch):
    asked = []

    def answered(plan, width, term, *, share):
        asked.append((width, term, share))
        return 1234

    def refused(plan, width, term, *, share):
        raise privatelr.GuaranteeError("no eps up to 1000 is enough.")

    monkeypatch.setattr(privatelr.StudyPlan, "needed_n", answered)
    monkeypatch.setattr(privatelr.StudyPlan, "needed_eps", answered)
    told = printed(capsys, *STUDY, *DECLARED, "--width", "0.01").splitlines()[-3:]
    assert told == [
        "For 95% intervals of every covariate up to 0.01 long in half of all studies:",
        "  n = 1,234",
        "  eps = 1,234",
    ]
    assert asked == [(0.01, None, 0.5)] * 2
    monkeypatch.setattr(privatelr.StudyPlan, "needed_eps", refused)
    shown = found(capsys, *STUDY, *DECLARED, "--width", "0.01", "--term", "age")["needed"]
    assert shown == {
        **{"width": 0.01, "term": "age", "share": 0.5, "n": 1234, "eps": None},
        "no_eps": "no eps up to 1000 is enough.",
    }
    nearly = [*STUDY, *DECLARED, "--width", "0.01", "--term", "age", "--share", "0.9"]
    told = printed(capsys, *nearly).splitlines()[-3:]
    assert told == [
        "For 95% intervals of age up to 0.01 long in 90% of all studies:",
        "  n = 1,234",
        "  no eps up to 1000 is enough.",
    ]
    assert asked[-1] == (0.01, "age", 0.9)


@pytest.mark.parametrize(
    ("arguments", "status", "word"),
    [
        (STUDY, 2, "--bounds age=lo:hi"),
        ([*STUDY, *DECLARED, "--eps", "-1"], 2, "eps=-1"),
        ([*STUDY, *DECLARED, "--balance", "2"], 2, "--balance 2"),
        ([*STUDY, *DECLARED, "--rho", "1", "--delta", "1e-6"], 2, "--delta goes with --eps"),
        ([*STUDY, *DECLARED, "--term", "age"], 2, "--term goes with --width or --plot"),
        ([*STUDY, *DECLARED, "--width", "1", "--term", "sbp"], 2, "term='sbp'"),
        ([*STUDY, *DECLARED, "--share", "0.9"], 2, "--share goes with --width"),
        ([*STUDY, *DECLARED, "--width", "1", "--share", "1"], 2, "--share 1"),
        ([*STUDY, *DECLARED, "--spread", "wide"], 2, "such as age=0.3"),
        ([*STUDY, *DECLARED, "--spread", "0.1", "--spread", "age=0.2"], 2, "--spread"),
        ([*STUDY, *DECLARED, "--pilot", "none.csv"], 2, "no such file"),
        ([*STUDY, *DECLARED, "--plot", "widths.gif"], 2, "widths.gif"),
        ([*STUDY, *DECLARED, "--bounds", "age=1"], 2, "NAME=LO:HI"),
        (["plan", FORMULA, *DECLARED], 2, "--n"),
        (["plan", FORMULA, "--n", "1.5", *DECLARED], 2, "n=1.5"),
        (["plan", "0", "--n", "100"], 2, "formula=0"),
        ([*STUDY, *DECLARED, "--lambda", "0", "--output-perturbation"], 1, "--lambda 0"),
        ([*STUDY, *DECLARED, "--analysis", "cms11", "--delta", "1e-6"], 1, "cms11"),
    ],
)
def test_refusals_are_one_line_and_have_a_status(arguments, status, word, capsys):
    assert run(*arguments) == status
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("privatelr: ")
    assert shown.err.count("\n") == 1
    assert word in shown.err
