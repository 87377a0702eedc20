"""The documentation site has every page and every public name, and asks nothing of the network."""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys

import docs
import pytest

import privatelr

ROOT = docs.ROOT
VIGNETTES = ROOT / "vignettes"
THEORY = (VIGNETTES / "theory.md").read_text(encoding="utf-8")
MKDOCS = all(map(importlib.util.find_spec, ("mkdocs", "material", "mkdocstrings")))
needs_mkdocs = pytest.mark.skipif(not MKDOCS, reason="takes the extra docs")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
CITED = re.compile(
    r"\b(Theorem|Lemma|Proposition)(s?) ((?:[A-Z]?\d[\w.]*\w|[A-Z]?\d)(?:(?:, | and )\d[\w.]*\w)*)"
)
LINK = re.compile(r"\[`?(?P<words>[\w.]+)`?\]\(\.\./(?P<file>[^)#]+\.py)\)")


def configuration():
    """The text of mkdocs.yml; its tags are about Python objects, so it is not parsed as YAML."""
    return (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_vignette_is_in_the_navigation():
    listed = set(re.findall(r"[\w/-]+\.md", configuration().partition("\nnav:")[2]))
    made = {"index.md", "changes.md", "contributing.md", "gallery.md", "reference/index.md"}
    assert listed == made | {path.name for path in VIGNETTES.glob("*.md")}


@needs_mkdocs
def test_every_public_name_is_in_the_reference():
    import site_pages

    grouped = [name for names in site_pages.GROUPS.values() for name in names]
    assert len(grouped) == len(set(grouped))
    assert {*grouped, *site_pages.MODULES} >= {*privatelr.__all__} - {"__version__"}
    text = "\n".join(site_pages.reference().values())
    for module in site_pages.modules():
        for name, path in site_pages.faces(module).items():
            assert re.search(rf"^::: {re.escape(path)}$", text, re.M), f"{module}.{name}"


@needs_mkdocs
def test_the_reference_says_where_a_name_is_at_work_and_not_where_a_variable_is():
    import site_pages

    where = site_pages.faces("") | site_pages.faces("audit")
    used = {name: site_pages.pages_using(where[name]) for name in ("search", "scaled", "dpsvm")}
    assert "auditing.md" in used["search"]
    assert "scikit-learn.md" not in used["search"]  # there `search` is a GridSearchCV
    assert "auditing.md" not in used["scaled"]
    assert "svm.md" in used["dpsvm"]
    assert "auditing.md" in site_pages.pages_using(site_pages.faces("datasets")["load_dataset"])
    assert {*site_pages.makers(where["Comparison"])} == {"compare"}
    assert "theory.md" in site_pages.pages_about(site_pages.faces("privacy")["renyi_of_draw"])


def unshown(words=None):
    """Names on the pages of the reference that have no example and that no page uses."""
    import site_pages

    return {
        f"privatelr.{module}.{name}".replace("..", ".")
        for module in ("", *site_pages.modules())
        for name, path in site_pages.faces(module).items()
        if not (words or site_pages._used_in_example)(path) and not site_pages.pages_using(path)
    }


@needs_mkdocs
def test_every_entry_of_the_reference_has_an_example_or_a_page():
    assert unshown() == {"privatelr.__version__"}


@needs_mkdocs
def test_every_entry_of_the_reference_shows_an_example_that_runs():
    import site_pages

    for module in ("", *site_pages.modules()):
        for name, path in site_pages.faces(module).items():
            own = site_pages._own_example(path)
            assert name == "__version__" or own or "```python" in site_pages._entry(path), name
    entry = site_pages._entry(site_pages.faces("")["StudyPlan"])
    assert re.search(r"Example, of \[`plan`\].*```python\n.*plan\(", entry, re.S)


@needs_mkdocs
@pytest.mark.parametrize(
    ("name", "page"),
    [
        *((name, "parts.md") for name in ("REPLACE_ONE", "REPLACE_PERSON")),
        *((f"audit.{name}", "auditing.md") for name in ("FULL", "QUICK", "Mechanism")),
    ],
)
def test_the_entry_of_a_constant_or_an_alias_says_which_page_uses_it(name, page):
    import site_pages

    module, _, last = name.rpartition(".")
    entry = site_pages._entry(site_pages.faces(module)[last])
    assert re.search(rf"Used in .*\(\.\./{re.escape(page)}\)", entry)


@needs_mkdocs
def test_pages_are_as_the_site_needs_them():
    import site_pages

    assert (
        site_pages.as_page("```text random\n1\n```\n", "vignettes/a.md", "a.md")
        == "```text\n1\n```\n"
    )
    links = "[a](vignettes/large.md#dask) [b](CHANGELOG.md) [c](LICENSE) [d](https://e.org)"
    expected = "[a](large.md#dask) [b](changes.md) [c](files/LICENSE.md) [d](https://e.org)"
    assert site_pages.as_page(links, "README.md", "index.md") == expected
    code = "[`joint_epsilon`](../privatelr/mechanisms/calibration/pure.py)"
    assert re.search(
        r"pure\.py\.md#__codelineno-0-\d+\)$", site_pages.as_page(code, "vignettes/a.md", "a.md")
    )
    fenced = "```python\nx = d[0](vignettes/large.md)\n```\n"
    assert site_pages.as_page(fenced, "README.md", "index.md") == fenced


@needs_mkdocs
def test_the_gallery_shows_every_picture_of_the_pages():
    import site_pages

    pages = {path.name: path.read_text(encoding="utf-8") for path in VIGNETTES.glob("*.md")}
    shown = site_pages.gallery(pages | {"index.md": (ROOT / "README.md").read_text("utf-8")})
    kept = {path.name for path in VIGNETTES.glob("*.png")}
    assert kept == {*re.findall(r"^!\[[^\]]+\]\(([\w-]+\.png)\)$", shown, re.M)}
    assert "plots-audit.png" in kept
    headings = re.findall(r"^## (.+)$", shown, re.M)
    assert len(headings) == len({*headings}) == len(kept)
    assert "ROC curve with the bands of sampling and of the noise" in headings
    assert all(2 < len(heading.split()) < 20 for heading in headings), headings
    assert "noise. [Plots](plots.md)" in shown


def citations():
    """The theorems that the package cites, as ``Theorem 3.1``."""
    for path in sorted((ROOT / "privatelr").rglob("*.py")):
        for kind, _, numbers in CITED.findall(" ".join(path.read_text(encoding="utf-8").split())):
            for number in re.split(r", | and ", numbers):
                yield f"{kind} {number}"


def untold(cited, page):
    """Citations that are neither a heading of the page nor in its table of others' theorems."""
    own, _, others = page.partition("\n## Theorems of others\n")
    headings = {*re.findall(r"^## (.+)$", own, re.M)}
    return {
        name
        for name in cited
        if name not in headings and not re.search(rf"\b{re.escape(name)}\b", others)
    }


def test_every_theorem_that_is_cited_is_on_the_page():
    cited = {*citations()}
    assert {"Lemma 0", "Theorem 3.1", "Theorem 3.1b", "Theorem 4.2", "Proposition S1"} <= cited
    assert untold(cited, THEORY) == set()
    assert untold({"Theorem 4.9"}, THEORY) == {"Theorem 4.9"}


SECTION = re.compile(r"\btheory\.md(?:#(?P<anchor>[\w-]+)| (?P<number>\d[\w.]*\w|\d))")


def sent_to():
    """Sections of the page that the package and its tests send readers to, with who does."""
    for folder in ("privatelr", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name != "test_site.py":
                for section in SECTION.finditer(path.read_text(encoding="utf-8")):
                    yield section["anchor"] or section["number"], path.name


def nowhere(sections, page):
    """Sections that are not on the page: by the anchor of a heading, or by a number in bold."""
    headings = re.findall(r"^##+ (.+)$", page, re.M)
    anchors = {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}
    numbers = {*re.findall(r"^\*\*(\d[\w.]*?)\.?\*\*", page, re.M)}
    numbers |= {one.split()[1] for one in headings if re.match(r"Theorem \d", one)}
    return {section for section in sections if section not in anchors | numbers}


def test_every_section_that_a_docstring_sends_readers_to_is_on_the_page():
    sections = {section for section, _ in sent_to()}
    assert {"strata", "moments", "several-classes", "persons", "4.3", "5"} <= sections
    assert nowhere(sections, THEORY) == set()
    assert nowhere({"strata", "strati", "4.2", "4.9"}, THEORY) == {"strati", "4.9"}
    links = {*re.findall(r"\]\(#([\w-]+)\)", THEORY)}
    assert nowhere(links, THEORY) == set()


NUMBERED = re.compile(r"\b(?!theory\b)[\w-]+\.md,?\s+(?:section )?\d")


def test_only_the_page_of_theory_is_cited_by_numbers():
    folders = {"privatelr": "*.py", "tests": "*.py", "vignettes": "*.md", ".github": "*.md"}
    paths = [path for name, ends in folders.items() for path in (ROOT / name).rglob(ends)]
    assert [path for path in paths if NUMBERED.search(path.read_text(encoding="utf-8"))] == []
    assert NUMBERED.search(f"scale.md {3.2}")
    assert not NUMBERED.search("theory.md 3.2")


def proofs():
    """Docstrings of the package that prove something, which the page does."""
    for path in sorted((ROOT / "privatelr").rglob("*.py")):
        if tells_a_proof(path.read_text(encoding="utf-8")):
            yield path.name


def tells_a_proof(text):
    """Whether a text has a proof of its own: a word that begins one, or one that ends one."""
    return re.search(r"\*Proof\.?\*|\bProof[.:]|\*\*Proof|\bQ\.?E\.?D\b", text) is not None


def test_proofs_are_on_the_page_alone():
    assert [*proofs()] == []
    assert tells_a_proof("It holds. *Proof.* Let a be 1. QED")
    assert not tells_a_proof("theory.md#strata has the proof.")


def defined(file):
    """The functions and classes of a file, at any depth."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def absent(page):
    """Functions and tests that a page names and that are not in the file it names."""
    found = [(link["words"], link["file"]) for link in LINK.finditer(page)]
    return [
        (name, file)
        for name, file in found
        if not (ROOT / file).is_file() or (not name.endswith(".py") and name not in defined(file))
    ]


def test_every_function_and_test_that_the_page_names_exists():
    assert absent(THEORY) == []
    assert len(LINK.findall(THEORY)) == THEORY.count("](../")
    gone = "[`test_gone`](../tests/test_site.py)"
    assert absent(gone) == [("test_gone", "tests/test_site.py")]


def incomplete(page):
    """What theorems of the page, its own and others', lack: a proof, a function or a test."""
    own, _, others = page.partition("\n## Theorems of others\n")
    for section in re.split(r"^## ", own, flags=re.M)[2:]:
        title = section.splitlines()[0]
        needed = {"function": "](../privatelr/", "test": "[`test_", "proof": "*Proof.*"}
        yield from (f"{title}: {name}" for name, mark in needed.items() if mark not in section)
        if section.count("*Proof.*") != section.count("∎"):
            yield f"{title}: a proof without an end"
    for row in re.findall(r"^\| .+ \|$", others, re.M)[1:]:
        yield from (row for mark in ("](../privatelr/", "[`test_") if mark not in row)


def test_every_theorem_has_a_proof_a_function_and_a_test():
    assert [*incomplete(THEORY)] == []
    bare = THEORY.replace("## Strata\n", "## Planted\n\nIt holds.\n\n## Strata\n")
    assert [*incomplete(bare)] == [f"Planted: {name}" for name in ("function", "test", "proof")]
    without = re.sub(r"\[`test_reference_rates`\]\([^)]+\)", "", THEORY)
    assert len([*incomplete(without)]) == 1


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built strictly: every link and anchor in it resolves."""
    folder = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", folder],  # -q hides warnings
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return folder


ASSET = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=\"(?:https?:)?//[^\"]+|"
    r"<link\b[^>]*?\bhref=\"(?:https?:)?//[^\"]+"
)


@needs_mkdocs
@pytest.mark.full
def test_the_site_is_strict_and_loads_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(list(VIGNETTES.glob("*.md")))
    assert [
        (page.name, found) for page in pages for found in ASSET.findall(page.read_text("utf-8"))
    ] == []
    styles = [path.read_text("utf-8") for path in site.rglob("*.css")]
    assert not [
        style for style in styles if re.search(r"(?:url\(|@import )['\"]?(?:https?:)?//", style)
    ]
    assert ASSET.findall('<script async src="https://cdn.example.org/a.js"></script>')


@needs_mkdocs
@pytest.mark.full
def test_the_search_takes_no_server(site):
    """A browser lets a page from a folder load scripts alone: no worker, and no JSON."""
    index = (site / "search" / "search_index.js").read_text("utf-8")
    assert index.startswith("var __index = {")
    for page, up in (("index.html", ""), ("reference/audit.html", "../")):
        assert f'<script src="{up}assets/iframe-worker/shim.js"' in (site / page).read_text("utf-8")


@needs_mkdocs
@pytest.mark.full
@pytest.mark.skipif(BROWSER is None, reason="takes Chromium")
def test_pages_are_searched_from_a_folder(site, tmp_path):
    asked = f"{(site / 'reference' / 'audit.html').as_uri()}?q=ledger"
    ways = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    ran = subprocess.run(
        [BROWSER, *ways, "--virtual-time-budget=20000", "--dump-dom", asked],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"[1-9]\d* matching documents", ran.stdout)
