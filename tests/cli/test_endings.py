"""How the installed commands end: every byte written or an error, and quietly if interrupted."""

import contextlib
import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from command_lines import LINES, PAYING, WRITING, prepare, run_each
from frames_for_laws import FORMULA, clinic, fit_clinic

from privatelr import Ledger, cli
from privatelr.cli.outcomes import in_shell

PROGRAMS = Path(sys.executable).parent
PRINTING = [
    *(f"privatelr {line}" for name, line in LINES.items() if name != "check"),
    "privatelr demo --json",
    "privatelr schema --help",
    "privatelr fit --help",
    "privatelr --version",
    "lrsimple points.txt",
    "privatelr svmsimple --json svm.txt",
]
"""All commands but the audit and the check, which prints on standard error."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with an input for each command; `many.csv` has predictions of 2 MB."""
    folder = prepare(tmp_path_factory.mktemp("endings"))
    table = clinic()
    rows = table.to_csv(index=False, header=False) * 2500
    (folder / "many.csv").write_text(f"{','.join(table.columns)}\n{rows}", encoding="utf-8")
    fit_clinic(table).save(folder / "model.json")
    return folder


_DECLARED = "--bounds y=0:1 --bounds age=18:90 --bounds dose=0:5 --levels smoker=no,yes"
FIT = f"fit clinic.csv '{FORMULA}' {_DECLARED}"


def heard(err):
    """Lines on standard error, without those about the table and what is not declared of it."""
    usual = (
        "privatelr: read as ",
        "privatelr: no bounds are declared ",
        "privatelr: no ledger was charged",
    )
    lines = [line for line in err.splitlines() if not line.startswith(usual)]
    return [line for line in lines if "--seed 3: the" not in line]


def run(line):
    program, *words = shlex.split(line)
    return getattr(cli, program.replace("privatelr", "main"))(words)


# -- every byte ------------------------------------------------------------------------------


@contextlib.contextmanager
def printing_to(target, monkeypatch, unbuffered=""):
    """Standard output as Python opens it, with and without PYTHONUNBUFFERED."""
    raw = open(target, "wb", buffering=0)  # noqa: SIM115 - closed with the stream
    with (
        io.TextIOWrapper(raw if unbuffered else io.BufferedWriter(raw)) as stream,
        monkeypatch.context() as patch,
    ):
        stream.reconfigure(write_through=bool(unbuffered))
        patch.setattr(sys, "stdout", stream)
        yield


FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="takes a device that is full")


@FULL
@pytest.mark.parametrize("line", PRINTING)
def test_an_output_that_takes_nothing_and_a_reader_that_left(line, home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    with printing_to("/dev/full", monkeypatch, "fit" in line):
        assert run(line) == 3
    (said,) = heard(capsys.readouterr().err)
    program = line.partition(" ")[0]
    assert said.startswith(f"{program}: the " if "ledger" in line else f"{program}: the output")
    assert said.endswith(" could not be written (no space left on device).")
    read, write = os.pipe()
    os.close(read)
    with printing_to(write, monkeypatch):
        assert run(line) == 141
    assert heard(capsys.readouterr().err) == []


@FULL
@pytest.mark.parametrize(
    ("line", "done"),
    [
        ("ledger create new.ledger --eps 2", "the ledger was created"),
        (f"{FIT} --ledger own.ledger", "the charge stands in the ledger"),
        (f"{FIT} --out own.json", "--out 'own.json' was written"),
    ],
)
def test_what_was_done_is_said_where_its_page_is_lost(line, done, tmp_path, monkeypatch, capsys):
    """Who hears of the page alone does it again, and pays twice."""
    monkeypatch.chdir(tmp_path)
    clinic().to_csv("clinic.csv", index=False)
    Ledger.create("own.ledger", 3)
    with printing_to("/dev/full", monkeypatch):
        assert run(f"privatelr {line}") == 3
    said = f"privatelr: {done}, but the page could not be written (no space left on device)."
    assert heard(capsys.readouterr().err) == [said]


# -- processes -------------------------------------------------------------------------------


def shell(line, folder, **environment):
    """Run a line in a shell where the installed programs are found first."""
    path = os.pathsep.join([str(PROGRAMS), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


@FULL
def test_an_installed_program_ends_as_its_function_does(home, tmp_path):
    full = shell("privatelr card model.json > /dev/full", home)
    said = "privatelr: the output could not be written (no space left on device)."
    assert (full.returncode, heard(full.stderr)) == (3, [said])
    left = shell("privatelr predict model.json many.csv | true", home, PYTHONUNBUFFERED="1")
    assert (left.returncode, left.stderr) == (141, "")
    part = f"ulimit -f 100; privatelr predict model.json many.csv > {tmp_path}/part.csv"
    cut = shell(part, home)  # one write takes what there is place for; only the next one fails
    assert (tmp_path / "part.csv").stat().st_size == 100 * 1024
    assert cut.returncode == 3


def test_an_interrupt_while_it_works_is_one_line(home):
    """Of a command that waits for its standard input."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-m", "privatelr", "predict", "model.json", "-"]
    with subprocess.Popen(command, cwd=home, encoding="utf-8", **pipes) as process:
        process.stdin.write("y,age,dose,smoker\n" * 5000)  # more than fits before it is read
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "privatelr: interrupted.\n")


# -- places that take nothing, and surroundings that lack something --------------------------

READING = {
    **{name: line for name, line in LINES.items() if name not in ("demo", "plan", "schema init")},
    "schema init": "schema init clinic.csv",
    "plan": "plan --schema study.toml --n 600",
}


@pytest.fixture
def locked(home):
    """A folder of someone else: its files cannot be read, and no file can be made there."""
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others as a whole
    shutil.copytree(home, folder, dirs_exist_ok=True)
    for path in folder.iterdir():
        path.chmod(0)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_nobody():
    """Words before a command that take root's rights over files away from it."""
    if os.geteuid():
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("root may read and write everything, and there is no setpriv")
    rights = "-dac_override,-dac_read_search"  # the files of the environment stay root's own
    return ("setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}")


WRONG = {
    f"{name}: {word}": (line, word)
    for name, line in READING.items()
    for word in shlex.split(line)
    if word.endswith((".csv", ".json", ".toml", ".txt", ".ledger"))
}
"""Each command, with each file that it reads."""


def test_files_and_folders_of_others(locked):
    written = [f"{LINES[name]} --out {locked}/out" for name in WRITING]
    for lines, status, words, mode in (
        ([*READING.values()], 2, "(permission denied)", 0o444),
        (written, 1, "the folder may not be written to", 0),
    ):
        ends = run_each(lines, locked, before=as_nobody())
        for line, (ended, out, err) in zip(lines, ends, strict=True):
            assert (ended, out, err.count("\n")) == (status, "", 1), (line, err)
            assert words in err.lower()
        for path in locked.iterdir():
            path.chmod(mode)


@pytest.mark.parametrize("instead", ["missing", "folder", "empty", "other"])
def test_a_wrong_file_is_a_wrong_input(instead, home, monkeypatch, capsys):
    """As the table of statuses says, of a ledger as of every other file."""
    monkeypatch.chdir(home)
    (home / "folder").mkdir(exist_ok=True)
    (home / "empty").touch()
    (home / "other").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    lines = [line.replace(word, instead, 1) for line, word in WRONG.values()]
    lines += [f"{LINES[name]} --ledger {instead}" for name in PAYING]
    for line in lines:
        status, told = run(f"privatelr {line}"), capsys.readouterr()
        assert (status, told.out, len(heard(told.err))) == (2, "", 1), (line, told.err)


def test_every_command_that_pays_is_refused_alike(home, monkeypatch, capsys):
    """The status 1 is of what is understood: a budget that is spent, or a file that is there."""
    monkeypatch.chdir(home)
    Ledger.create(home / "spent.ledger", 1e-6)
    lines = [f"{LINES[name].replace(' --seed 3', '')} --ledger spent.ledger" for name in PAYING]
    lines = [f"{line} --released-only" if "simple" in line else line for line in lines]
    lines += [f"{LINES[name]} --out clinic.csv" for name in WRITING]
    for line in lines:
        status, told = run(f"privatelr {line}"), capsys.readouterr()
        assert (status, told.out, len(heard(told.err))) == (1, "", 1), (line, told.err)
    (home / "spent.ledger").unlink()


# -- interrupts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("python", "option"),
    [
        ("spend='inference' splits", "--spend inference splits"),
        ("(analysis='one-log')", "(--analysis one-log)"),
        ("do_scale='private': takes bounds=", "--do-scale private: takes bounds="),
        ("leave do_scale=False.", "leave --do-scale no."),
        ("are -1 and 1; fit.scale has them", "are -1 and 1; --json has them"),
        ("of sd 9 on each; fit.roc\n  has more", "of sd 9 on each; --json\n  has more"),
        ("lambda_=-1: lambda_ takes", "--lambda -1: --lambda takes"),
        ("a number as lambda_.", "a number as --lambda."),
        ('declare bounds={"age": (lo, hi)}, or', "declare --bounds age=lo:hi, or"),
        ("declaring bounds={name: (lo,\n   hi)} maps", "declaring --bounds\n   name=lo:hi maps"),
        ('levels={\'a b\': ["no", "yes"]}', "--levels 'a b=no,yes'"),
        ('levels={"vote": [...]}', "--levels vote=..."),
        # names of columns stay
        ("lambda_    0.1", "lambda_    0.1"),
        ("y ~ spend + analysis + bounds", "y ~ spend + analysis + bounds"),
    ],
)
def test_an_argument_is_spelled_as_an_option(python, option):
    assert in_shell(python) == option


@pytest.mark.parametrize("rest", ["", "--spend inference", "--row-norm 1", "--method svm"])
def test_pages_name_options_and_commands(rest, home, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(home)
    declared = "--bounds y=0:1 --bounds age=18:90" if "row-norm" in rest else _DECLARED
    given = shlex.split(f"fit clinic.csv 'y ~ age + dose' {declared} {rest}")
    for line in (given, ["demo"]):
        assert cli.main(line) == 0
        page = capsys.readouterr().out
        for spelling in ("fit.diagnostics", "spend=", "bounds=", "analysis=", "diagnostics="):
            assert spelling not in page
        assert "privatelr check shows the counts" in page
        assert "(--analysis" in page
        assert max(map(len, page.splitlines())) <= 79
