"""``privatelr check``: to those who hold the table, and to nobody else."""

import sys

import pandas as pd
import pytest
from frames_for_laws import clinic

from privatelr.cli import main

DECLARED = ["--bounds", "age=18:90", "--bounds", "y=0:1", "--levels", "smoker=no,yes"]
FORMULA = "y ~ age + smoker"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = clinic().astype(object)
    frame.loc[3, "age"], frame.loc[4, "age"], frame.loc[5, "smoker"] = "forty", 120, "perhaps"
    frame.loc[6, "smoker"] = None
    frame.to_csv("table.csv", index=False)
    return tmp_path


def test_the_page_goes_to_standard_error_and_nothing_is_written(home, capsys):
    before = sorted(home.iterdir())
    assert main(["check", "table.csv", FORMULA, *DECLARED]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("NOT PRIVATE")  # or an alarm, which nothing precedes
    assert shown.err.splitlines()[-1].startswith("privatelr: read as numbers: ")
    rows = [" ".join(line.split()) for line in shown.err.splitlines()]
    assert "age 39 1 1 -" in rows
    assert "smoker 38 1 - 1" in rows
    assert sorted(home.iterdir()) == before


def test_a_typo_in_a_level_is_told_from_missing_values(home, capsys):
    """In text and in Parquet: what is declared by another name than the table has is there."""
    frame = pd.read_csv("table.csv").assign(age=30.0)
    frame.to_parquet("table.parquet")
    for table in ("table.csv", "table.parquet"):
        assert main(["check", table, FORMULA, *DECLARED[:5], "smoker=no,yse"]) == 0
        rows = [" ".join(line.split()) for line in capsys.readouterr().err.splitlines()]
        (said,) = [row for row in rows if row.startswith("smoker")]
        yes = int((frame["smoker"] == "yes").sum())
        assert said == f"smoker {38 - yes} 1 - {yes + 1}"


def test_a_decimal_comma_is_seen_before_anything_is_spent(home, capsys):
    text = "y;age\n" + "".join(f"{i % 2};{20 + i},5\n" for i in range(9))
    (home / "comma.csv").write_text(text, encoding="utf-8")
    declared = ["--bounds", "age=0:99", "--levels", "y=0,1"]
    assert main(["check", "comma.csv", "y ~ age", "--separator", ";", *declared]) == 0
    words = " ".join(capsys.readouterr().err.split())
    assert "No usable value has: age." in words
    assert "9 cannot be used" in words


def test_what_it_refuses(home, capsys, monkeypatch):
    assert main(["check", "table.csv", "y ~ height"]) == 2
    assert main(["check", "no.csv", FORMULA]) == 2
    assert main(["check", "table.csv", FORMULA, *DECLARED, "--bounds", "weight=0:1"]) == 2
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["check", "table.csv", FORMULA, *DECLARED]) == 2


def test_a_fit_says_what_is_doubtful_in_one_line(home, capsys):
    declared = ["--levels", "smoker=no,yes", "--bounds", "y=0:1", "--eps", "0"]
    assert main(["fit", "table.csv", FORMULA, *declared]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "no bounds are declared for 'age', so values" in line]
    assert all(line.startswith("privatelr: ") for line in said)
    assert len(said) == 2
