"""Pages of the documentation site that are written elsewhere: a hook of ``mkdocs.yml``.

The vignettes are pages as they stand. This adds README as the home page, the changelog, the
reference of every public name, the pictures of all pages, and a page for each file of the
repository that a page links to, so that every link of the Markdown works on the site as well.
"""

from __future__ import annotations

import ast
import doctest
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from public_uses import MODULES, uses

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "privatelr"
ELSEWHERE = {
    "index.md": "README.md",
    "changes.md": "CHANGELOG.md",
    "contributing.md": ".github/CONTRIBUTING.md",
}
"""Pages that stand outside of the vignettes, each with its file."""

GROUPS = {
    "Fits": ["dplr", "dpsvm", "dpmultinom", "dplpsvm", "dpsimplex", "check", "load"],
    "What a fit returns": [
        *("Fit", "MultinomialFit", "SelectedFit", "Strata", "Diagnostics"),
        *("Calibration", "Release", "Newton"),
    ],
    "Before a fit": [
        *("plan", "StudyPlan"),
        *("suggest_bounds", "SuggestedBounds", "levels_from"),
        *("ReleasedLevels", "scaled", "ScaledData"),
    ],
    "After a fit": [
        *("compare", "Comparison", "choose", "ChosenFit", "average_marginal_effects"),
        *("MarginalEffects", "plot_coefficients"),
    ],
    "Guarantees and ledgers": [
        *("PureDP", "ApproxDP", "ZCDP", "NonPrivate", "REPLACE_ONE", "REPLACE_PERSON"),
        *("compose", "implies", "to_approximate", "to_zcdp", "Ledger"),
    ],
    "Linear programs and online play": ["constraint_private_lp", "PrivateFTRL"],
    "Tables": ["load_dataset", "load_schema", "stream"],
    "Errors and warnings": [
        *("PrivateLRError", "ArgumentError", "FormulaError", "GuaranteeError"),
        *("LedgerError", "MissingDependencyError", "NoRelease", "NotConvergedError"),
        *("ReleaseFileError", "SchemaError", "PrivacyWarning", "SchemaWarning"),
    ],
}
"""The public names of the package by page; `audit` and other modules have pages of their own."""

RECORDS = {"What a fit returns": ["privatelr.results.fit_record.FitRecord"]}
"""Classes that docstrings of a page refer to for attributes, by the page."""

_LINK = re.compile(
    r"(?P<text>\[(?:[^\[\]]|\[[^\[\]]*\])*\])\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)"
)
_MARK = re.compile(r"^(?P<fence>[ ]*`{3,}(?:text|console|python))[ ]+[^\n]*$", re.MULTILINE)
_PICTURE = re.compile(r"^!\[(?P<words>[^\]]+)\]\((?P<file>[^)]+\.(?:png|svg))\)$", re.MULTILINE)
_FIRST_WORDS = re.compile(r"^(.+?)(?:[,;:.](?:\s|$)|$)")
"""What a picture shows, without more of it."""
_TITLE = re.compile(r"^# (?P<title>.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINE_OF_CODE = re.compile(r'id="(__codelineno-[\d-]+)"')
_FENCED = re.compile(r"(^ *```.*?^ *```[^\S\n]*$)", re.MULTILINE | re.DOTALL)


@cache
def faces(module: str) -> dict[str, str]:
    """Of a module its public names, each with where it is defined, read without an import."""
    tree, imported = _tree(module), _imports(module)
    listed = [
        element.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AugAssign) and "__all__" in ast.unparse(node)
        for element in ast.walk(node.value)
        if isinstance(element, ast.Constant)
    ]
    here = f"privatelr.{module}".rstrip(".")
    found = {name: _defined(imported.get(name, f"{here}.{name}")) for name in listed or imported}
    return {name: path for name, path in found.items() if listed or _is_documented(path)}


def _is_documented(path: str) -> bool:
    """Whether a name is a function or a class: constants of a folder are its own affair."""
    module, _, name = path.removeprefix("privatelr.").rpartition(".")
    body = _tree(module).body
    return any(name == getattr(node, "name", None) for node in body)


@cache
def _defined(path: str) -> str:
    """Where a name is defined, from where it is imported."""
    module, _, name = path.removeprefix("privatelr.").rpartition(".")
    if not module or not _is_module(module):
        return path
    again = _imports(module).get(name)
    return _defined(again) if again and again != path else path


def _is_module(module: str) -> bool:
    place = PACKAGE.joinpath(*module.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


def modules() -> list[str]:
    """The modules with a page, as far as the package has them."""
    return [name for name in MODULES if _is_module(name)]


@cache
def _pages() -> dict[str, str]:
    """The text of each page of the repository, by the page of the site."""
    vignettes = {path.name: path for path in sorted((ROOT / "vignettes").glob("*.md"))}
    pages = {"index.md": ROOT / ELSEWHERE["index.md"], **vignettes}
    return {page: path.read_text(encoding="utf-8") for page, path in pages.items()}


@cache
def _used() -> dict[str, set[str]]:
    """Where the names are defined that the Python of a page uses, by the page."""
    used = {page: uses("\n".join(_PYTHON.findall(text))) for page, text in _pages().items()}
    return {page: {*map(_resolved, paths)} for page, paths in used.items()}


def _resolved(path: str) -> str:
    """Where a name is defined, from how a page has imported it."""
    _, _, name = path.partition(".")
    return faces("").get(name) or _defined(path)


def pages_using(path: str) -> list[str]:
    """The pages whose examples use a public name, which is told by where it is defined."""
    return [page for page, used in _used().items() if path in used]


def pages_about(path: str) -> list[str]:
    """The pages that have a link to a function or a class by its name."""
    module, _, name = path.rpartition(".")
    file = f"{module.replace('.', '/')}.py"
    return [
        page
        for page, text in _pages().items()
        for link in [re.compile(rf"\[`{re.escape(name)}`\]\((?P<file>[^)]+\.py)\)")]
        if any(resolved(one["file"], repository_file(page)) == file for one in link.finditer(text))
    ]


@cache
def _used_in_example(path: str) -> set[str]:
    """Where the names are defined that the example of a docstring uses."""
    return {*map(_resolved, uses(_own_example(path)))}


@cache
def _own_example(path: str) -> str:
    """The code of the examples in the docstring of a name."""
    module, _, name = path.removeprefix("privatelr.").rpartition(".")
    body = _tree(module).body if _is_module(module) else []
    found = [node for node in body if getattr(node, "name", None) == name]
    words = "\n".join(ast.get_docstring(node) or "" for node in found)
    return "".join(one.source for one in doctest.DocTestParser().get_examples(words))


def example_of(path: str) -> str:
    """An example for the entry of a name whose docstring has none; it is run where it stands."""
    if _own_example(path):
        return ""
    for maker, where in makers(path).items():
        if code := _own_example(where):
            return f"Example, of [`{maker}`][{where}], which returns one:\n\n{_code(code)}"
    for page in pages_using(path):
        blocks = _PYTHON.findall(_pages()[page])
        for count, block in enumerate(blocks, 1):
            if path in {*map(_resolved, uses("\n".join(blocks[:count])))}:
                source = f"[{_title(page)}](../{page})"
                return f"Example, from {source}, after what stands there before:\n\n{_code(block)}"
    return ""


def _code(text: str) -> str:
    return f"```python\n{text.strip()}\n```"


def makers(path: str) -> dict[str, str]:
    """The public functions that return a public class, each with its path."""
    among = [""] if path in faces("").values() else modules()
    return {
        maker: where
        for module in among
        for maker, where in faces(module).items()
        if path in _returned(where)
    }


@cache
def _returned(path: str) -> set[str]:
    """Where the classes are defined that a function names in what it returns."""
    module, _, name = path.removeprefix("privatelr.").rpartition(".")
    found = set[str]()
    for node in _tree(module).body if _is_module(module) else []:
        if isinstance(node, ast.FunctionDef) and node.name == name and node.returns:
            words = ast.parse(ast.unparse(node.returns).strip("'\""))
            found |= {one.id for one in ast.walk(words) if isinstance(one, ast.Name)}
    here = f"privatelr.{module}."
    return {_defined(_imports(module).get(one, f"{here}{one}")) for one in found}


def _entry(path: str) -> str:
    """What the reference says of a name: its docstring, and where it is seen at work."""
    made = [f"[`{maker}`][{where}]" for maker, where in makers(path).items()]
    used, about = pages_using(path), pages_about(path)
    told = {
        "Returned by": made,
        "Used in": [f"[{_title(page)}](../{page})" for page in used[:5]],
        "Described in": [f"[{_title(page)}](../{page})" for page in about if page not in used],
    }
    seen = [f"{words} {', '.join(links)}." for words, links in told.items() if links]
    parts = [f"::: {path}", " ".join(seen), example_of(path)]
    return "\n\n".join(filter(None, parts))


@cache
def _title(page: str) -> str:
    path = ROOT / repository_file(page)
    title = _TITLE.search(path.read_text(encoding="utf-8"))
    assert title is not None
    return "Home" if page == "index.md" else title["title"]


def reference() -> dict[str, str]:
    """The pages of the reference, by their address."""
    where = faces("")
    pages, told = {}, {}
    for title, names in GROUPS.items():
        address = f"reference/{title.lower().replace(' ', '-')}.md"
        told |= {where[name]: address for name in names}
        entries = "\n\n".join(_entry(where[name]) for name in names)
        records = [
            f"::: {path}\n    options:\n      members: []" for path in RECORDS.get(title, [])
        ]
        pages[address] = "\n\n".join([f"# {title}", entries, *records]) + "\n"
    for module in modules():
        address, found = f"reference/{module}.md", faces(module)
        entries = "\n\n".join(_entry(path) for path in found.values() if path not in told)
        others = [f"[`{name}`][{path}]" for name, path in found.items() if path in told]
        also = f"Also here: {', '.join(others)}.\n\n" if others else ""
        about = ast.get_docstring(_tree(module)) or ""
        pages[address] = f"# privatelr.{module}\n\n{_indented_code(about)}\n\n{also}{entries}\n"
        told |= dict.fromkeys(found.values(), address)
    listing = "\n".join(_contents(address, text) for address, text in pages.items())
    version = re.search(r'^__version__ = "(.+)"$', _source_of(""), re.MULTILINE)
    assert version is not None
    pages["reference/index.md"] = (
        f"# Reference\n\nOf version {version[1]} (`privatelr.__version__`). What stands without a "
        f"module is imported from `privatelr`.\n\n{listing}\n"
    )
    return pages


@cache
def _imports(module: str) -> dict[str, str]:
    """The names that a module takes from others of the package, each with its path there."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("privatelr")
        for alias in node.names
    }


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_source_of(module))


def _source_of(module: str) -> str:
    path = PACKAGE.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path.read_text(encoding="utf-8")


def _indented_code(text: str) -> str:
    """A docstring of a module, in which what follows an import is code."""
    words, code, rest = text.partition("\n\nfrom privatelr ")
    return f"{words}\n\n```python\nfrom privatelr {rest}\n```" if code else text


def _contents(address: str, text: str) -> str:
    title = _TITLE.search(text)
    names = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    links = ", ".join(f"[`{name.rpartition('.')[2]}`][{name}]" for name in names)
    assert title is not None
    return f"- [{title['title']}]({posixpath.basename(address)}): {links}"


def gallery(texts: dict[str, str]) -> str:
    """Every picture of the pages, under what it shows, with the page that draws it."""
    parts = ["# Gallery\n\nThe pictures of these pages, each with the page that draws it."]
    shown = set[str]()
    for address, text in sorted(texts.items(), key=lambda page: (page[0] == "index.md", page)):
        title = _TITLE.search(text)
        for picture in _PICTURE.finditer(text):
            assert title is not None
            words, file = picture["words"], picture["file"].removeprefix("vignettes/")
            if file not in shown:  # the home page shows pictures of others
                (heading,) = _FIRST_WORDS.findall(" ".join(words.split()))
                source = f"{words} [{title['title']}]({address})"
                parts.append(f"## {heading}\n\n![{words}]({file})\n\n{source}")
            shown.add(file)
    return "\n\n".join(parts) + "\n"


def resolved(target: str, file: str) -> str:
    """The file of the repository that a link in a file of the repository leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), target))


def linked_files(text: str, file: str) -> Iterator[str]:
    """Files of the repository outside of the vignettes that a page links to."""
    for link in _LINK.finditer(text):
        path = resolved(link["target"], file)
        known = path.startswith("vignettes/") or path in ELSEWHERE.values()
        if not known and (ROOT / path).is_file():
            yield path


def file_page(path: str) -> str:
    """A page that shows a file of the repository."""
    text = (ROOT / path).read_text(encoding="utf-8")
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    language = {".py": "python", ".md": "markdown", ".toml": "toml"}.get(Path(path).suffix, "text")
    return f"---\nsearch: {{exclude: true}}\n---\n\n# {path}\n\n{fence}{language}\n{text}{fence}\n"


def line_of(name: str, path: str) -> int | None:
    """The line where a file defines a function or a class, such as ``Law.draw``."""
    if not path.endswith(".py"):
        return None
    scope: list[ast.stmt] = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    line = None
    for part in name.removesuffix("()").split("."):
        found = [node for node in scope if getattr(node, "name", None) == part]
        if not found:
            return None
        line, scope = found[0].lineno, getattr(found[0], "body", [])
    return line


def as_page(text: str, file: str, page: str) -> str:
    """A page of the repository as it stands on the site."""

    def moved(link: re.Match[str]) -> str:
        path = resolved(link["target"], file)
        pages = {file: address for address, file in ELSEWHERE.items()}
        anchor = link["anchor"] or ""
        if path.startswith("vignettes/"):
            address = path.removeprefix("vignettes/")
        elif path in pages:
            address = pages[path]
        elif (ROOT / path).is_file():
            address = f"files/{path}.md"
            line = line_of(link["text"].strip("[]`"), path)
            anchor = f"#__codelineno-0-{line}" if line else anchor
        else:
            return link[0]
        return (
            f"{link['text']}({posixpath.relpath(address, posixpath.dirname(page) or '.')}{anchor})"
        )

    parts = _FENCED.split(_MARK.sub(r"\g<fence>", text))
    return "".join(
        part if index % 2 else _LINK.sub(moved, part) for index, part in enumerate(parts)
    )


def repository_file(page: str) -> str:
    """The file of the repository that a page of the vignettes is."""
    return ELSEWHERE.get(page, f"vignettes/{page}")


def on_config(config: Any) -> Any:
    """Put the pages of the reference into the navigation."""
    pages = sorted(reference(), key=lambda address: address != "reference/index.md")
    config["nav"] = [
        {"Reference": pages} if "Reference" in item else item for item in config["nav"]
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that the vignettes do not hold."""
    for page, path in ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    texts = {file.src_uri: file.content_string for file in files.documentation_pages()}
    shown = {
        path for page, text in texts.items() for path in linked_files(text, repository_file(page))
    }
    made = reference() | {"gallery.md": gallery(texts)}
    made |= {f"files/{path}.md": file_page(path) for path in sorted(shown)}
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Give a page of the repository the links and fences of the site."""
    generated = (
        page.file.src_uri.startswith(("reference/", "files/")) or page.file.src_uri == "gallery.md"
    )
    if generated:
        return markdown
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation"]
    return as_page(markdown, repository_file(page.file.src_uri), page.file.src_uri)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Tell of the anchors of lines of code, which are made too late to be found."""
    page.present_anchor_ids |= set(_LINE_OF_CODE.findall(html))
    return html


def on_page_context(context: Any, page: Any, **_: Any) -> Any:
    """Load MathJax where there are formulas, and nowhere else."""
    if 'class="arithmatex"' in page.content:
        up = posixpath.relpath("assets", posixpath.dirname(page.url) or ".")
        page.content += "".join(
            f'<script src="{up}/{name}"></script>' for name in ("formulas.js", "mathjax/tex-svg.js")
        )
    return context
