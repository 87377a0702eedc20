"""``privatelr bounds`` and ``privatelr levels``: schema files that other commands take."""

import tomllib

import numpy as np
import pandas as pd
import pytest

from privatelr import load, load_schema
from privatelr.cli import main

OUTER = ["--bounds", "age=0:1000", "--bounds", "income=-1e7:1e7"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    n = 3000
    frame = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, n).round(),
            "income": rng.lognormal(10, 1, n).round(2),
            "job": rng.choice(["worker", "clerk", 'the "boss"'], n, p=[0.6, 0.3, 0.1]),
            "y": rng.integers(0, 2, n),
        }
    ).astype(object)
    frame.loc[3, "age"], frame.loc[4, "job"], frame.loc[5, "job"] = "forty", "a secret", None
    frame.to_csv("table.csv", index=False)
    return tmp_path


def test_what_one_command_prints_the_next_one_takes(home, capsys):
    assert main(["bounds", "table.csv", *OUTER, "--eps", "16", "--out", "ranges.toml"]) == 0
    shown = capsys.readouterr()
    assert shown.out == (home / "ranges.toml").read_text(encoding="utf-8")
    assert "# Promise     epsilon = 16 (pure)" in shown.out
    assert "read as numbers: age, income" in shown.err
    (low, high), wide = tomllib.loads(shown.out)["bounds"].values()
    assert 0 <= low < 30 < 60 < high < 300
    assert wide[1] < 5e6
    price = ["--eps", "1", "--delta", "1e-7"]
    more = ["--schema", "ranges.toml", "--out", "all.toml"]
    assert main(["levels", "table.csv", "job", *price, *more]) == 0
    assert "a secret" not in capsys.readouterr().out
    declared = load_schema(home / "all.toml")
    assert set(declared["bounds"]) == {"age", "income"}
    assert declared["levels"]["job"] == ["clerk", 'the "boss"', "worker"]
    told = ["fit", "table.csv", "y ~ age + income + job", "--schema", "all.toml"]
    told += ["--bounds", "y=0:1"]
    assert main([*told, "--out", "model.json"]) == 0
    assert load("model.json").spec.variables["age"].bounds == (low, high)


def test_persons(home, capsys):
    frame = pd.read_csv("table.csv")
    frame = pd.concat([frame.assign(who=range(len(frame)))] * 2)
    frame.to_csv("twice.csv", index=False)
    for line in (["bounds", "twice.csv", *OUTER], ["levels", "twice.csv", "job", "--delta=1e-7"]):
        assert main([*line, "--eps", "2", "--person", "who"]) == 0
        shown = capsys.readouterr()
        assert "one of m = 3000 persons" in " ".join(shown.out.replace("#", "").split())
        assert "6000" not in shown.out + shown.err
    frame.iloc[:4, :2].to_csv("cut.csv", index=False)
    with open("cut.csv", "a", encoding="utf-8") as file:
        file.write("1,2,3,4\n")
    assert main(["bounds", "cut.csv", *OUTER, "--eps", "2", "--person", "age"]) == 2
    assert "line 6" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["bounds", "table.csv", *OUTER], 2, "a price is needed"),
        (["bounds", "table.csv", "--eps", "1"], 2, "an outer range for each column"),
        (["bounds", "table.csv", *OUTER, "--eps", "0"], 2, "eps takes a number from"),
        (["bounds", "table.csv", *OUTER, "--eps", "0.001"], 1, "mostly noise"),
        (["bounds", "table.csv", "--bounds", "ages=0:9", "--eps", "1"], 2, "did you mean 'age'"),
        (["levels", "table.csv", "job", "--eps", "1"], 1, "no level could be"),
        (["levels", "table.csv", "jobs", "--eps", "1", "--delta", "1e-7"], 2, "'jobs' is not"),
        (
            ["levels", "table.csv", "age", "--eps=1", "--delta=1e-7", "--bounds=age=0:9"],
            2,
            "has bounds",
        ),
        (["bounds", "table.csv", *OUTER, "--rho", "1", "--delta", "1e-7"], 2, "--rho has none"),
        (["levels", "table.csv", "job", "--eps", "1"], 1, "a delta above 0"),
        (["bounds", "table.csv", *OUTER, "--eps", "1", "--person", "who"], 2, "'who'"),
        (["bounds", "no.csv", *OUTER, "--eps", "1"], 2, "no.csv"),
    ],
)
def test_refusals(home, capsys, arguments, status, words):
    assert main(arguments) == status
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err


def test_an_existing_file_is_refused_before_anything_is_read(home, capsys):
    (home / "ranges.toml").write_text("mine", encoding="utf-8")
    arguments = ["bounds", "table.csv", *OUTER, "--eps", "4", "--out", "ranges.toml"]
    assert main(arguments) == 1
    assert capsys.readouterr().out == ""
    assert (home / "ranges.toml").read_text(encoding="utf-8") == "mine"
    assert main([*arguments, "--force"]) == 0
