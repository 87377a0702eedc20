"""The documents say what the package prints."""

from __future__ import annotations

import re
import tomllib

import docs
import pytest

PAGE = """\
Before.

```python
from privatelr import dplr, load_dataset, load_schema

fit = dplr("Species != 'setosa' ~ .", load_dataset("iris"), **load_schema("iris"))
print(fit)
```

```text random
```

```python
print(fit.tidy())
```

```text random
```

```python
print(fit.predict(load_dataset("iris").head(2)))
```

```text random
```

```python
print(fit.guarantee)
```

```text
```

```python
print("loss    0.934 of 1: ok at 1e-06")
```

```text within 5%
```

```python
from pathlib import Path

Path("counted.txt").write_text("one\\ntwo\\n")
```

```console random
$ python -c "import random; print('drawn', 1 + random.random())"
$ sort counted.txt \\
    | tail -1
$ false
$ echo "status $?"; echo said >&2
```

After.
"""


ELSEWHERE = {"auditing.md"}
"""Run where its numbers are looked at as well, because it takes minutes: test_audit_table.py."""


@pytest.mark.long
@pytest.mark.parametrize(
    "path",
    [path for path in docs.DOCUMENTS if path.name not in ELSEWHERE],
    ids=lambda path: path.name,
)
def test_a_document_shows_what_its_examples_print(path):
    text = path.read_text(encoding="utf-8")
    if message := docs.absent(text):
        pytest.skip(f"{path.name} {message}")
    wrong = docs.wrong(docs.read(text, path.name))
    assert not wrong, "\n".join(wrong)


def test_every_block_is_run_or_is_not_python():
    for path in docs.DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        regions = [example.region.lexemes for example in docs.read(text, path.name)]
        assert len(regions) == len(re.findall(r"^ *```+ *(?:py|console)", text, re.M)), path.name
        shown = sum(bool(one["kind"] == "python" and one["expected"]) for one in regions)
        assert shown == len(re.findall(r"^ *```+ *text", text, re.M)), path.name


def test_a_document_whose_tables_are_absent_says_so(tmp_path, monkeypatch):
    text = "# Title\n\n<!-- data: adult cod-rna -->\n\nMore.\n"
    monkeypatch.setenv(docs.HOME, str(tmp_path))
    (tmp_path / "adult").mkdir()
    message = docs.absent(text)
    assert "holds no cod-rna;" in message
    assert docs.HOME in message
    (tmp_path / "cod-rna").mkdir()
    assert docs.absent(text) == ""
    assert docs.absent("# Title\n") == ""


@pytest.fixture(scope="module")
def page():
    return docs.refresh(PAGE)


def is_right(text):
    return not docs.wrong(docs.read(text))


def test_a_refreshed_page_is_right_under_fresh_noise(page):
    assert "Differentially private" in page
    assert page.startswith("Before.")
    assert page.endswith("After.\n")
    assert is_right(page)


@pytest.mark.parametrize(
    ("public", "planted"),
    [
        ("scale 2.02", "scale 2.03"),
        ("R = 2.06", "R = 2.07"),
        ("n = 150", "n = 151"),
        ("0.0567", "0.0568"),
        ("0.800464", "0.800465"),  # privacy_sd_limit in tidy()
        ("Sepal.Width + Petal", "Petal"),
        ("expected noise sd  noise sd limit", "noise sd limit  expected noise sd"),
        ("epsilon = 1 (pure)\n```", "epsilon = 2 (pure)\n```"),
        ("Name: probability", "Name: probabilities"),
        ("C-index", "AUC"),
        ("No number on this page", "No page"),
        ("0.934 of 1", "0.88 of 1"),
        ("at 1e-06", "at 1e-05"),
        ("ok at", "off at"),
        ("loss    0.934 of 1", "loss    0.934"),
        ("drawn 1", "drawn no 1"),
        ("    | tail -1\ntwo\n", "    | tail -1\none\n"),
        ("    | tail -1\ntwo\n", "    | tail -1\n"),
        ("| tail", "| head"),
        ("status 1", "status 0"),
        ("said\n```", "```"),
        ("status 1\nsaid\n```", "status 1\nsaid\n$ echo more\n```"),
    ],
)
def test_a_planted_change_is_caught(page, public, planted):
    assert public in page
    assert not is_right(page.replace(public, planted, 1))


CONTRIBUTING = (docs.ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")


def places(text):
    """Modules that a text names, and the functions or methods that it says they hold."""
    for path, names in re.findall(r"`([\w/{},.*]+?\.py)(?:: ([\w., ]+))?`", text):
        yield path, [name.strip() for name in names.split(",") if name]


def lost(text):
    """What a text names and is not there."""
    gone = []
    for path, names in places(text):
        found = [one for top in (".", "privatelr") for one in (docs.ROOT / top).glob(path)]
        if "/" not in path:  # in the folder that was named before it
            found = [*(docs.ROOT / "privatelr").rglob(path)]
        source = "".join(one.read_text(encoding="utf-8") for one in found)
        told = [name.rpartition(".")[2] for name in names]
        gone += [path] * (not found)
        gone += [
            f"{path}: {name}"
            for name in told
            if not re.search(rf"\b(def|class) {name}\b|^{name}\b", source, re.M)
        ]
    return gone


def test_contributors_find_what_the_page_names():
    assert len(list(places(CONTRIBUTING))) > 20
    assert lost(CONTRIBUTING) == []


def test_the_readme_names_every_extra_for_users():
    project = tomllib.loads((docs.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for_contributors = {"benchmarks", "dev", "docs", "notebooks", "test"}
    readme = (docs.ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall("^Extras, as in .*", readme, re.MULTILINE)
    named = set(re.findall("`([a-z]+)`", line))
    assert named == set(project["optional-dependencies"]) - for_contributors


def options(monkeypatch, tmp_path, *arguments):
    """The status of the program, and the documents that it leaves behind."""
    paths = [tmp_path / "one.md", tmp_path / "two.md"]
    for path in paths:
        path.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n", encoding="utf-8")
    monkeypatch.setattr(docs, "DOCUMENTS", tuple(paths))
    monkeypatch.setattr("sys.argv", ["docs", *arguments])
    try:
        status = docs.main()
    except SystemExit as stop:
        status = stop.code
    return status, ["\n2\n" in path.read_text(encoding="utf-8") for path in paths]


@pytest.mark.parametrize(
    ("arguments", "status", "kept"),
    [
        ([], 0, [False, False]),
        (["--check"], 1, [True, True]),
        (["--help"], 0, [True, True]),
        (["--chek"], 2, [True, True]),
        (["none.md"], 2, [True, True]),
        (["two.md"], 0, [True, False]),
        (["one.md", "--check"], 1, [True, True]),
    ],
)
def test_documents_change_only_where_that_is_asked_for(
    arguments, status, kept, monkeypatch, tmp_path, capsys
):
    assert options(monkeypatch, tmp_path, *arguments) == (status, kept)
    shown = capsys.readouterr()
    assert ("--check" in shown.out) == (arguments == ["--help"])
