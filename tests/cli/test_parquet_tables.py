"""Tables in Parquet: the types are the file's own, and no null changes one."""

import json
import re
import shutil
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privatelr import (
    MissingDependencyError,
    SchemaError,
    cli,
    load_dataset,
    load_schema,
    stream,
)
from privatelr.cli.outcomes import InputError
from privatelr.cli.tables import UNDECLARED, DeclaredColumn, by_levels, open_table

pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
pytest.importorskip("pyarrow.feather", reason="needs the extra [parquet]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra [parquet]")


def same(one, other):
    return bool(pd.isna(other) if pd.isna(one) else one == other)


@pytest.mark.parametrize("name", ["iris", "anes96", "breast_cancer"])
def test_a_written_table_comes_back(name, tmp_path):
    table, levels = load_dataset(name), load_schema(name)["levels"]
    table.to_parquet(tmp_path / "table.parquet")
    with open_table(str(tmp_path / "table.parquet"), None) as opened:
        frame, _ = opened.read({c: by_levels(c, levels.get(c)) for c in table.columns})
    for column in table.columns:
        assert list(frame[column]) == list(table[column])


def parquet(tmp_path, wanted, **columns):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(columns), path)
    with open_table(str(path), None) as table:
        assert table.names == tuple(columns)
        return table.read(wanted)


NUMBERS = [
    (pa.int8(), 3),
    (pa.uint64(), 2**63),
    (pa.int64(), 2**53 + 1),  # no float, and no reason to refuse
    (pa.float16(), np.float16(0.5)),
    (pa.float32(), 0.1),
    (pa.float64(), 0.1),
    (pa.decimal128(9, 2), Decimal("1.25")),
]


@pytest.mark.parametrize(("type_", "value"), NUMBERS, ids=[str(t) for t, _ in NUMBERS])
def test_a_null_does_not_change_a_type(type_, value, tmp_path):
    wanted = {"x": DeclaredColumn("numbers")}
    whole, readings = parquet(tmp_path, wanted, x=pa.array([value, value], type_))
    holed, _ = parquet(tmp_path, wanted, x=pa.array([value, None], type_))
    assert readings == {"x": "numbers"}
    assert whole.dtypes.equals(holed.dtypes)
    assert float(whole["x"][0]) == float(holed["x"][0]) == pytest.approx(float(value), rel=1e-3)
    assert pd.isna(holed["x"][1])


@pytest.mark.parametrize("value", [True, None])
def test_truths(value, tmp_path):
    frame, readings = parquet(
        tmp_path,
        {"plain": DeclaredColumn("numbers"), "spelled": DeclaredColumn("text", ("No", "Yes"))}
        | {"text": DeclaredColumn("text", ("False", "True"))},
        plain=pa.array([False, value]),
        spelled=pa.array([False, value]),
        text=pa.array([False, value]),
    )
    assert frame["plain"].dtype == frame["spelled"].dtype == "boolean"  # the package refuses one
    assert same(frame["plain"][1], value)
    assert same(frame["text"][1], None if value is None else "True")
    assert readings == {"plain": "true or false", "spelled": "true or false", "text": "text"}


@pytest.mark.parametrize("type_", ["int64", "double", "float", "decimal", "dictionary"])
def test_numbers_match_the_texts_that_spell_them(type_, tmp_path):
    """As whole numbers are doubles in pandas where one is missing."""
    kinds = {"decimal": pa.decimal128(5, 1), "dictionary": pa.int64()}
    grades = pa.array([1, 2, 7, None], kinds.get(type_, type_))
    grades = grades.dictionary_encode() if type_ == "dictionary" else grades
    for levels in (("2", "1"), ("2.0", "01")):
        wanted = {"x": DeclaredColumn("text", levels)}
        frame, _ = parquet(tmp_path, wanted, x=grades)
        assert list(frame["x"].cat.codes) == [1, 0, 2, -1]
        with open_table([str(tmp_path)]) as files:
            read, readings = files.read(wanted)
        assert readings == {"x": "text"}
        (batch,) = read.read(["x"])
        assert batch.column("x").to_pylist() == [levels[1], levels[0], UNDECLARED, None]
    for levels in (("low", "2"), ("1", "1.0")):  # these spell no different numbers
        _, readings = parquet(tmp_path, {"x": DeclaredColumn("text", levels)}, x=grades)
        assert readings == {"x": "numbers"}


def test_whole_numbers_are_texts_as_they_are_written(tmp_path):
    frame, _ = parquet(tmp_path, {"x": DeclaredColumn("text")}, x=pa.array([1, 2, None]))
    assert list(frame["x"][:2]) == ["1", "2"]


@pytest.mark.parametrize("paths", [["t.parquet"], ["t.parquet", "u.parquet"]])
def test_numbers_are_compared_in_their_own_type(paths, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tenths = pa.array(np.arange(80) % 4 / 10, pa.float32())
    sites = pa.array(2**53 + np.arange(80) % 4)
    for path in paths:
        pq.write_table(pa.table({"y": np.arange(80) % 3 < 1, "x": tenths, "site": sites}), path)
    told = []
    for term in ("I(x == 0.1)", f"I(site == {2**53 + 1})"):
        assert cli.main(["fit", *paths, f"y ~ {term}", "--eps", "0", "--json", "--quiet"]) == 0
        told.append(json.loads(capsys.readouterr().out)["derived"]["fits"][0]["user_units"])
    assert told[0] == told[1]
    assert told[0][1] != 0


def test_a_dictionary_declares_no_levels(tmp_path):
    coded = pa.array(["a", "b", None]).dictionary_encode()
    frame, readings = parquet(tmp_path, {"x": DeclaredColumn("numbers")}, x=coded)
    assert frame["x"].dtype == "string"
    assert readings == {"x": "text"}


@pytest.mark.parametrize("type_", [pa.timestamp("s"), pa.list_(pa.int8()), pa.binary(), pa.null()])
def test_other_types_are_refused(type_, tmp_path):
    with pytest.raises(InputError, match="column 'x' has the type"):
        parquet(tmp_path, {"x": DeclaredColumn("numbers")}, x=pa.array([None], type_))


def test_what_is_no_parquet(tmp_path):
    path = tmp_path / "table.parquet"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match="not a Parquet table"), open_table(str(path), None):
        pass
    with pytest.raises(InputError, match="--separator"), open_table(str(path), ";"):
        pass
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"]), path)
    with pytest.raises(InputError, match="two columns are called 'a'"), open_table(str(path), None):
        pass


def test_a_damaged_file(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"x": [str(i) for i in range(999)]}), path)
    content = bytearray(path.read_bytes())
    content[4:2000] = b"\xff" * 1996
    path.write_bytes(content)
    with open_table(str(path), None) as table, pytest.raises(InputError, match="is damaged"):
        table.read({"x": DeclaredColumn("text")})


def test_without_pyarrow_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "table.parquet").touch()
    path = str(tmp_path / "table.parquet")
    with (
        pytest.raises(MissingDependencyError, match=r"privatelr\[parquet\]"),
        open_table(path, None),
    ):
        pass


TEXTS = [pa.string(), pa.large_string(), pa.string_view()]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
@pytest.mark.parametrize("levels", [(), ("a", "b")], ids=["any text", "levels"])
def test_bytes_that_are_no_text_are_missing(kind, levels, tmp_path):
    """One record may hold them, so the file is not refused for it."""
    plain = pa.large_string() if kind == pa.large_string() else pa.string()
    stored = pa.large_binary() if kind == pa.large_string() else pa.binary()
    cells = pa.array([b"a", b"\xff", b"b", None], stored).view(plain).cast(kind)
    frame, _ = parquet(tmp_path, {"s": DeclaredColumn("text", levels)}, s=cells)
    assert frame["s"].isna().tolist() == [False, True, False, True]
    assert frame["s"].dropna().tolist() == ["a", "b"]


# -- several files -----------------------------------------------------------------------------

FORMULA = "y ~ age + sex + grade + ok"
DECLARED = ["--bounds", "age=18:90", "--levels", "sex=f,m", "--levels", "grade=1,2,3"]
DECLARED += ["--bounds", "y=0:1", "--levels", "ok=No,Yes", "--levels", "told=FALSE,TRUE"]


def made_up(n=600):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "y": rng.integers(0, 2, n),
            "age": pa.array(rng.uniform(15, 95, n), mask=rng.random(n) < 0.1),
            "sex": pa.array(rng.choice(["f", "m", "x"], n)).dictionary_encode(),
            "grade": pa.array(rng.integers(1, 5, n), mask=rng.random(n) < 0.1),
            "ok": pa.array(rng.choice(["No", "Yes"], n), pa.large_string()),
            "told": pa.array(rng.random(n) < 0.5),
            "unused": pa.array([[1]] * n),
        }
    )


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """One table as one file, and as three files in a folder, one of which has no record."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    table = made_up()
    pq.write_table(table, "whole.parquet", row_group_size=100)
    for name, piece in (("a", table[:250]), ("b", table[:0]), ("c", table[250:])):
        pq.write_table(piece, f"parts/{name}.parquet")
    return tmp_path


def coefficients(capsys, *arguments):
    assert cli.main([*arguments, "--seed", "1", "--json", *DECLARED]) == 0
    return json.loads(capsys.readouterr().out)["derived"]["fits"][0]["user_units"]


WAYS = [
    ["parts/a.parquet", "parts/b.parquet", "parts/c.parquet"],
    ["parts"],
    ["parts/*.parquet"],
    ["parts/[ab].parquet", "parts/c*.parquet"],
]


@pytest.mark.parametrize("formula", [FORMULA, "y ~ told + age"])
@pytest.mark.parametrize("paths", WAYS, ids=["files", "folder", "pattern", "patterns"])
def test_several_files_are_one_table(paths, formula, parts, capsys):
    whole = coefficients(capsys, "fit", "whole.parquet", formula)
    found = coefficients(capsys, "fit", *paths, formula)
    np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-9)


def test_commands_read_several_files_alike(parts, capsys):
    """What is read is said in the same words, and checks and predictions are the same."""
    said = []
    for paths in (["whole.parquet"], *WAYS):
        assert cli.main(["fit", *paths, FORMULA, *DECLARED, "--out", "m.json", "--force"]) == 0
        said.append(capsys.readouterr().err)
    assert len(set(said)) == 1
    assert "as text: sex, grade, ok" in said[0]
    checked, predicted = [], []
    for paths in (["whole.parquet"], *WAYS):
        assert cli.main(["check", *paths, FORMULA, *DECLARED, "--json"]) == 0
        checked.append(capsys.readouterr().err)
        assert cli.main(["predict", "m.json", *paths]) == 0
        predicted.append(capsys.readouterr().out)
    assert len(set(predicted)) == len(set(checked)) == 1
    assert '"undeclared"' in checked[0]


def test_the_formula_of_a_schema_goes_with_several_files(parts, capsys):
    (parts / "s.toml").write_text(
        'formula = "y ~ age"\n[bounds]\nage = [18, 90]\ny = [0, 1]\n', "utf-8"
    )
    for paths in WAYS:
        assert cli.main(["fit", *paths, "--schema", "s.toml"]) == 0
        assert "y ~ age" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        (lambda: pq.write_table(pa.table({"y": ["4711"]}), "parts/b.parquet"), "types|column"),
        (lambda: Path("parts/b.parquet").write_bytes(b"4711"), "could not be"),
        (lambda: Path("parts/a.parquet").write_bytes(b"4711"), "could not be"),
    ],
)
def test_files_that_do_not_fit_together_are_one_sentence(planted, words, parts, capsys):
    planted()
    for paths in WAYS:
        declared = ["--bounds", "age=18:90", "--bounds", "y=0:1"]
        assert cli.main(["fit", *paths, "y ~ age", *declared]) == 2
        told = capsys.readouterr()
        assert re.search(words, told.err)
        assert "4711" not in told.err
        assert not told.out
        assert len(told.err.splitlines()) <= 2


@pytest.mark.parametrize("coded", [False, True], ids=["plain", "dictionary"])
@pytest.mark.parametrize("kind", TEXTS, ids=str)
@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_texts_are_texts_however_arrow_spells_them(kind, ending, coded, parts, capsys):
    """Views as well, which polars and Delta tables write, in one file and in several."""
    if coded and kind == pa.string_view() and ending == "parquet":
        pytest.skip("pyarrow does not write it")
    texts = pa.chunked_array([pa.array(["f", "m", None, "x"] * 25, pa.string())])
    if coded:
        codes = pa.array([0, 1, None, 2] * 25, pa.int32())
        values = pa.array(["f", "m", "x"]).cast(kind)
        texts = pa.chunked_array([pa.DictionaryArray.from_arrays(codes, values)])
    table = pa.table({"y": [True, False] * 50, "sex": texts if coded else texts.cast(kind)})
    for name, piece in (("whole", table), ("a", table[:30]), ("b", table[30:])):
        if ending == "parquet":
            pq.write_table(piece, f"{name}.parquet")
        else:
            pa.feather.write_feather(piece, f"{name}.feather", compression="uncompressed")
    said = []
    for files in ([f"whole.{ending}"], [f"a.{ending}", f"b.{ending}"]):
        assert cli.main(["check", *files, "y ~ sex", "--levels", "sex=f,m", "--json"]) == 0
        said.append(capsys.readouterr().err)
    assert said[0] == said[1]
    assert '"undeclared": 25' in said[0]
    assert '"missing": 25' in said[0]


def test_what_polars_writes_is_read(parts, capsys):
    pl = pytest.importorskip("polars", reason="takes polars")
    texts = pl.Series("sex", ["f", "m", None, "long enough for a view"] * 25)
    frame = pl.DataFrame({"y": [True, False] * 50, "sex": texts, "of": texts.cast(pl.Categorical)})
    frame.write_ipc("p.feather")
    frame.write_parquet("p.parquet")
    said = []
    for name in ("p.feather", "p.parquet"):
        declared = ["--levels", "sex=f,m", "--levels", "of=f,m"]
        assert cli.main(["check", name, "y ~ sex + of", *declared, "--json"]) == 0
        said.append(capsys.readouterr().err)
    assert said[0] == said[1]
    assert said[0].count('"undeclared": 25') == 2


@pytest.mark.parametrize("command", ["fit", "check", "predict", "roc", "schema init"])
def test_a_file_that_is_not_there_is_named_among_several(command, parts, capsys):
    """It is a wrong command line, as it is where it is the only one."""
    assert cli.main(["fit", "whole.parquet", "y ~ age", *DECLARED, "--out", "m.json"]) == 0
    capsys.readouterr()
    before = [*command.split(), *(["m.json"] if command in ("predict", "roc") else [])]
    after = {"fit": ["y ~ age"], "check": ["y ~ age"], "roc": ["--eps", "1"]}.get(command, [])
    for several in (["parts/a.parquet", "typo.parquet"], ["typo.parquet"], ["none/*.parquet"]):
        assert cli.main([*before, *several, *after]) == 2, several
        told = capsys.readouterr()
        assert told.err == f"privatelr: {several[-1]!r}: there is no such file.\n"
        assert not told.out


def test_what_is_a_table_of_its_own_is_refused_among_files(parts, capsys):
    for other, what in (("parts", "a folder"), ("-", "standard input")):
        assert cli.main(["fit", "whole.parquet", other, "y ~ age", *DECLARED]) == 2
        told = f"privatelr: {other!r}: {what} is a table of its own, and not among files.\n"
        assert capsys.readouterr().err == told


def test_folders_below_a_pattern_tell_columns(parts, capsys):
    """Also where all files that it stands for are in one of them."""
    (parts / "all" / "site=7").mkdir(parents=True)
    for name in ("a", "b"):
        (parts / f"parts/{name}.parquet").rename(parts / f"all/site=7/{name}.parquet")
    assert cli.main(["schema", "init", "all/*/*.parquet"]) == 0
    assert "# site = " in capsys.readouterr().out


def test_patterns_are_the_same_files_for_commands_and_calls(parts, capsys):
    """A file whose own name looks like a pattern is that file; `.ipc` is Feather for both."""
    pq.write_table(made_up()[:400], "whole[1].parquet")
    pa.feather.write_feather(made_up()[:400], "whole.ipc", compression="uncompressed")
    shutil.copy("parts/a.parquet", "whole1.parquet")
    said = []
    for data in ("whole[1].parquet", "whole.ipc", "*.ipc"):
        assert stream(data).count() == 400
        assert cli.main(["check", data, "y ~ age", *DECLARED, "--json"]) == 0
        said.append(capsys.readouterr().err)
    assert len(set(said)) == 1


def test_a_file_that_is_named_twice_is_refused(parts, capsys):
    """Its records would count twice, and so would each of them in what is promised."""
    (parts / "link.parquet").symlink_to("whole.parquet")
    for data in (
        ["whole.parquet", "./whole.parquet"],
        ["parts/*.parquet", "parts/a.parquet"],
        ["whole.parquet", "link.parquet"],
        ["*.parquet"],
    ):
        with pytest.raises(SchemaError, match="parquet' is named twice"):
            stream(data)
        assert cli.main(["fit", *data, "y ~ age", *DECLARED]) == 2
        assert "parquet' is named twice" in capsys.readouterr().err


def test_several_texts_are_refused_by_what_they_are(parts, capsys):
    for name in ("a", "b"):
        (parts / f"{name}.csv").write_text("y,age\n1,20\n0,30\n", "utf-8")
    for several in (["*.csv"], ["a.csv", "b.csv"], ["a.csv", "whole.parquet"]):
        assert cli.main(["fit", *several, "y ~ age", "--separator", ","]) == 2
        assert "convert them, or pass one." in capsys.readouterr().err
    box = ["--bounds", "age=18:90", "--bounds", "y=0:1"]
    assert cli.main(["check", "[a].csv", "y ~ age", *box]) == 0
    assert "y ~ age" in capsys.readouterr().err


def test_templates_and_curves_take_several_files(parts, capsys):
    """Templates name the same columns; a curve of files has that of the whole table."""
    fit = ["fit", "whole.parquet", FORMULA, *DECLARED, "--seed", "1", "--out", "m.json"]
    assert cli.main(fit) == 0
    capsys.readouterr()
    templates, curves = [], []
    for paths in (["whole.parquet"], *WAYS):
        assert cli.main(["schema", "init", *paths]) == 0
        templates.append(capsys.readouterr().out.split("\n", 1)[1])
        assert cli.main(["roc", "m.json", *paths, "--eps", "1", "--seed", "1", "--json"]) == 0
        curves.append(capsys.readouterr().out)
    assert len(set(templates)) == len(set(curves)) == 1
