"""How the installed commands end: every byte written or an error, and quietly if interrupted."""

import contextlib
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import pytest
from command_lines import LINES, WRITING, prepare, run_each
from frames_for_laws import FORMULA, clinic, fit_clinic

from privatelr import Ledger, cli, load
from privatelr.audit import checks, run_audit
from privatelr.cli.options import _OPTIONS
from privatelr.cli.outcomes import in_shell
from privatelr.planning import StudyPlan

PROGRAMS = Path(sys.executable).parent
UNBUFFERED = pytest.mark.parametrize("unbuffered", ["1", ""], ids=["unbuffered", "buffered"])
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="takes a device that is full")
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


def shell(line, folder, unbuffered=""):
    """Run a line in a shell where the installed programs are found first."""
    path = os.pathsep.join([str(PROGRAMS), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


_DECLARED = "--bounds y=0:1 --bounds age=18:90 --bounds dose=0:5 --levels smoker=no,yes"
DECLARED = _DECLARED.split()


def heard(err):
    """Lines on standard error, without those about the table and what is not declared of it."""
    usual = (
        "privatelr: read as ",
        "privatelr: no bounds are declared ",
        "privatelr: no ledger was charged",
    )
    lines = [line for line in err.splitlines() if not line.startswith(usual)]
    return [line for line in lines if "--seed 3: the" not in line]


# -- every byte ------------------------------------------------------------------------------


@contextlib.contextmanager
def printing_to(target, monkeypatch, unbuffered):
    """Standard output as Python opens it, with and without PYTHONUNBUFFERED."""
    raw = open(target, "wb", buffering=0)  # noqa: SIM115 - closed with the stream
    with (
        io.TextIOWrapper(raw if unbuffered else io.BufferedWriter(raw)) as stream,
        monkeypatch.context() as patch,
    ):
        stream.reconfigure(write_through=bool(unbuffered))
        patch.setattr(sys, "stdout", stream)
        yield


@FULL
@UNBUFFERED
@pytest.mark.parametrize("line", PRINTING)
def test_an_output_that_takes_nothing(line, unbuffered, home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    program, *arguments = shlex.split(line)
    with printing_to("/dev/full", monkeypatch, unbuffered):
        status = getattr(cli, program.replace("privatelr", "main"))(arguments)
    assert status == 3
    (said,) = heard(capsys.readouterr().err)
    assert said.startswith(f"{program}: the ")
    if "ledger" not in line:  # what was done to one is said first
        assert said.startswith(f"{program}: the output")
    assert said.endswith(" could not be written (no space left on device).")


@FULL
def test_an_installed_program_whose_output_takes_nothing(home):
    found = shell("privatelr card model.json > /dev/full", home)
    assert found.returncode == 3
    said = "privatelr: the output could not be written (no space left on device)."
    assert heard(found.stderr) == [said]


@UNBUFFERED
def test_an_output_that_takes_a_part(unbuffered, home, tmp_path):
    """One write takes what there is place for; only the next one fails."""
    line = f"ulimit -f 100; privatelr predict model.json many.csv > {tmp_path}/part.csv"
    found = shell(line, home, unbuffered)
    assert (tmp_path / "part.csv").stat().st_size == 100 * 1024
    assert found.returncode == 3
    assert heard(found.stderr) == ["privatelr: the output could not be written (file too large)."]


@UNBUFFERED
def test_every_byte_arrives(unbuffered, home, tmp_path, monkeypatch):
    monkeypatch.chdir(home)
    predict = ["predict", "model.json", "many.csv"]
    with printing_to(tmp_path / "printed.csv", monkeypatch, unbuffered):
        assert cli.main(predict) == 0
    assert cli.main([*predict, "--out", f"{tmp_path}/written.csv"]) == 0
    assert (tmp_path / "printed.csv").read_bytes() == (tmp_path / "written.csv").read_bytes()


@FULL
@UNBUFFERED
def test_a_page_that_is_lost_beside_a_file_that_is_not(
    unbuffered, home, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(home)
    target = str(tmp_path / "model.json")
    with printing_to("/dev/full", monkeypatch, unbuffered):
        assert cli.main(["fit", "clinic.csv", FORMULA, *DECLARED, "--out", target]) == 3
    said = f"--out {target!r} was written, but the page could not be written"
    assert heard(capsys.readouterr().err) == [f"privatelr: {said} (no space left on device)."]
    assert load(target).nobs == 600


@FULL
@pytest.mark.parametrize(
    ("line", "done"),
    [
        ("ledger create new.ledger --eps 2", "the ledger was created"),
        (
            f"fit clinic.csv '{FORMULA}' {_DECLARED} --ledger own.ledger",
            "the charge stands in the ledger",
        ),
    ],
)
def test_what_was_done_is_said_where_its_page_is_lost(line, done, tmp_path, monkeypatch, capsys):
    """Who hears of the page alone does it again, and pays twice."""
    monkeypatch.chdir(tmp_path)
    clinic().to_csv("clinic.csv", index=False)
    Ledger.create("own.ledger", 3)
    with printing_to("/dev/full", monkeypatch, ""):
        assert cli.main(shlex.split(line)) == 3
    said = f"privatelr: {done}, but the page could not be written (no space left on device)."
    assert heard(capsys.readouterr().err) == [said]


@FULL
def test_a_check_whose_page_is_lost(home):
    assert shell(f"privatelr {LINES['check']} 2> /dev/full", home).returncode == 3


@FULL
def test_a_page_without_what_is_said_beside_it(home):
    """A fit that is paid for and printed is done, though its messages are lost."""
    found = shell(f"privatelr {LINES['fit']} 2> /dev/full", home)
    assert found.returncode == 0
    assert FORMULA.replace("+ smoker", "+ smoker + größe") in found.stdout


@pytest.mark.parametrize("command", WRITING)
def test_a_file_that_a_disk_has_no_place_for(command, home, tmp_path):
    """As far as a process can make one: a file may not grow."""
    target = tmp_path / "out"
    found = shell(f"ulimit -f 0; privatelr {LINES[command]} --out {target} | cat", home)
    assert found.returncode == 3
    assert heard(found.stderr) == [
        f"privatelr: --out {str(target)!r} was not written (file too large)."
    ]
    assert [*tmp_path.iterdir()] == []


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


def test_files_that_may_not_be_read(locked):
    for name, (status, out, err) in zip(
        READING, run_each([*READING.values()], locked, before=as_nobody()), strict=True
    ):
        assert (status, out, err.count("\n")) == (2, "", 1), (name, err)
        assert "(permission denied)" in err.lower()


WRONG = {
    f"{name}: {word}": (line, word)
    for name, line in READING.items()
    for word in shlex.split(line)
    if word.endswith((".csv", ".json", ".toml", ".txt", ".ledger"))
}
"""Each command, with each file that it reads."""


@pytest.mark.parametrize("instead", ["missing", "folder", "empty", "other"])
def test_a_wrong_file_is_a_wrong_input(instead, home):
    """As the table of statuses says, of a ledger as of every other file."""
    (home / "folder").mkdir(exist_ok=True)
    (home / "empty").touch()
    (home / "other").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    lines = [line.replace(word, instead, 1) for line, word in WRONG.values()]
    lines += [f"{LINES[name]} --ledger {instead}" for name in PAYING]
    for line, (status, out, err) in zip(lines, run_each(lines, home), strict=True):
        assert (status, out, len(heard(err))) == (2, "", 1), (line, err)


PAYING = [
    name for name, groups in _OPTIONS.items() if any("--ledger" in row.split() for _, row in groups)
]


def test_every_command_that_pays_is_refused_alike(home):
    """The status 1 is of what is understood: a budget that is spent, or a file that is there."""
    Ledger.create(home / "spent.ledger", 1e-6)
    lines = [f"{LINES[name].replace(' --seed 3', '')} --ledger spent.ledger" for name in PAYING]
    lines = [f"{line} --released-only" if "simple" in line else line for line in lines]
    lines += [f"{LINES[name]} --out clinic.csv" for name in WRITING]
    for line, (status, out, err) in zip(lines, run_each(lines, home), strict=True):
        assert (status, out, len(heard(err))) == (1, "", 1), (line, err)
    (home / "spent.ledger").unlink()


IN_BYTES = """
import os, sys
from privatelr.cli import main
note = os.fsdecode("gr\\xf6\\xdfe".encode(sys.argv[1]))
fit = ["fit", "clinic.csv", "--schema", "study.toml", "--eps", "0.1", "--ledger", "bytes.ledger"]
status = main([*fit, "--note", note, "--quiet"])
status = status or main(["ledger", "show", "bytes.ledger"])
sys.exit(status)
"""


@pytest.mark.parametrize(("coded", "status"), [("utf-8", 0), ("latin-1", 2)])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_note_in_bytes_is_utf8_in_the_ledger(coded, status, locale, home):
    (home / "bytes.ledger").unlink(missing_ok=True)
    ledger = Ledger.create(home / "bytes.ledger", 1.0)
    done = subprocess.run(
        [sys.executable, "-c", IN_BYTES, coded],
        cwd=home,
        env={**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    told = ledger._book.store.rows()[-1].body.encode()
    assert (json.loads(told).get("note") == "größe") is (status == 0)
    if status:
        assert b"--note: takes text in UTF-8, and these bytes are not" in done.stderr
    else:
        shown = b"gr\\xf6\\xdfe" if locale == "C" else "größe".encode()
        assert shown in done.stdout


def test_folders_that_may_not_be_written_to(locked):
    for path in locked.iterdir():
        path.chmod(0o444)
    lines = [f"{LINES[name]} --out {locked}/out" for name in WRITING]
    for name, (status, out, err) in zip(
        WRITING, run_each(lines, locked, before=as_nobody()), strict=True
    ):
        said = f"privatelr: --out '{locked}/out': the folder may not be written to.\n"
        assert (status, out, err) == (1, "", said), name


@pytest.mark.parametrize("surroundings", [{}, {"HOME": "/proc/1"}], ids=["no HOME", "bad HOME"])
def test_the_c_locale_and_no_home(surroundings, home, tmp_path):
    """All commands do their work, with pictures, and say what they say in ASCII."""
    rest = {**surroundings, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    lines = [*LINES.values()]
    lines += [f"{LINES[name]} --out {tmp_path}/{place}" for place, name in enumerate(WRITING)]
    lines += [f"roc lr.json clinic.csv --eps 1 --seed 3 --plot {tmp_path}/roc.png"]
    for line, (status, out, err) in zip(
        lines, run_each(lines, home, encoding="ascii", **rest), strict=True
    ):
        assert status == 0, (line, err)
        page = line.startswith("check")
        assert page or heard(err.replace(r"gr\xf6\xdfe", "")) == [], (line, err)
        assert out.isascii()
    assert (tmp_path / "roc.png").stat().st_size > 1000
    assert "größe" in (tmp_path / str(WRITING.index("schema init"))).read_text(encoding="utf-8")
    wrong = [f"{line} --no-such" for line in LINES.values()]
    wrong += [
        "fit gr\u00f6\u00dfe.csv 'y ~ age'",
        "predict lr.json gr\u00f6.csv",
        "roc l.json c.csv",
    ]
    for line, (status, out, err) in zip(
        wrong, run_each(wrong, home, encoding="ascii", **rest), strict=True
    ):
        assert (status, out, err.count("\n")) == (2, "", 1), (line, err)


# -- readers that leave ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "unbuffered"), [("fit --help", ""), ("predict model.json many.csv", "1")]
)
def test_a_reader_that_wants_nothing(line, unbuffered, home):
    found = shell(f"privatelr {line} | true", home, unbuffered)
    assert found.stderr == ""
    assert found.returncode == 141


@pytest.mark.parametrize("line", PRINTING)
def test_a_reader_that_left_before(line, home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    read, write = os.pipe()
    os.close(read)
    program, *arguments = shlex.split(line)
    with printing_to(write, monkeypatch, ""):
        status = getattr(cli, program.replace("privatelr", "main"))(arguments)
    assert (status, heard(capsys.readouterr().err)) == (141, [])


@pytest.mark.parametrize(("options", "unbuffered"), [("", "1"), ("--json", "")])
def test_a_reader_that_leaves_a_fit_whose_file_is_written(options, unbuffered, home, tmp_path):
    """A retry would pay twice."""
    fit = f"privatelr fit clinic.csv '{FORMULA}' {_DECLARED} --out {tmp_path}/model.json {options}"
    found = shell(f"{fit} | true", home, unbuffered)
    assert (found.returncode, heard(found.stderr)) == (0, [])
    assert load(tmp_path / "model.json").nobs == 600


# -- interrupts ------------------------------------------------------------------------------


def started(*command, folder):
    """A command that waits for its standard input, and so for a signal."""
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join([str(PROGRAMS), os.environ["PATH"]])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def ended(process, number):
    """Exit status, standard output and standard error of what is sent a signal."""
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


STARTED = {
    **{name: name for name in ("lrsimple", "privatelr", "svmsimple")},
    f"{sys.executable} -m privatelr": "privatelr",
}


def test_every_installed_program_is_one_of_these():
    project = Path(__file__).parents[2] / "pyproject.toml"
    scripts = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["scripts"]
    assert {place.partition(":")[0] for place in scripts.values()} == {"privatelr.cli"}
    assert {place.partition(":")[2] for place in scripts.values()} == set(cli.__all__)
    assert {*scripts} == {*STARTED.values()}


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended by SIGTERM")],
)
def test_a_signal_while_it_works_is_one_line(number, status, said, home):
    with started("privatelr", "predict", "model.json", "-", folder=home) as process:
        process.stdin.write("y,age,dose,smoker\n" * 5000)  # more than fits before it is read
        process.stdin.flush()
        found = ended(process, number)
    assert found == (status, "", f"privatelr: {said}.\n")


def test_an_interrupt_of_an_audit_is_one_line(monkeypatch, capsys, tmp_path):
    def audited(eps, *, effort, report):
        report(checks.Check("ledger", "a sum", 1.0, 1.0, ""))
        raise KeyboardInterrupt

    monkeypatch.setattr(run_audit, "run", audited)
    assert cli.main(["audit", "--plot", str(tmp_path / "audit.svg")]) == 130
    assert heard(capsys.readouterr().err)[1:] == ["privatelr: interrupted."]
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "line",
    [
        "roc lr.json clinic.csv --eps 1 --out roc.json",
        "plan 3 --n 5000 --spend coefficients=1",
    ],
)
def test_an_interrupt_of_a_picture_leaves_none(line, home, tmp_path, monkeypatch, capsys):
    """Of what a picture writes first there is nothing, and what was paid for before is whole."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    def half(self, target, **_):
        target.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", half)
    monkeypatch.chdir(home)
    words = shlex.split(line.replace("roc.json", f"{tmp_path}/roc.json"))
    monkeypatch.setattr(StudyPlan, "plot", lambda *_, **__: None)
    assert cli.main([*words, "--plot", f"{tmp_path}/picture.svg"]) == 130
    assert heard(capsys.readouterr().err) == ["privatelr: interrupted."]
    assert {path.name for path in tmp_path.iterdir()} <= {"roc.json"}
    assert ("roc.json" in line) is (tmp_path / "roc.json").exists()


def test_an_interrupt_that_is_ignored_stays_ignored(home):
    """As behind nohup, or for what a shell runs in the background."""
    process = started("bash", "-c", "trap '' INT; exec privatelr demo", folder=home)
    time.sleep(0.3)
    status, out, err = ended(process, signal.SIGINT)
    assert (status, err) == (0, "")
    assert "epsilon = 1 (pure)" in out


@pytest.mark.parametrize(
    ("python", "option"),
    [
        ("spend='inference' splits", "--spend inference splits"),
        ("(analysis='one-log')", "(--analysis one-log)"),
        ("do_scale='private': takes bounds=", "--do-scale private: takes bounds="),
        ("leave do_scale=False.", "leave --do-scale no."),
        ("are -1 and 1; fit.scale has them", "are -1 and 1; --json has them"),
        ("of sd 9 on each; fit.roc\n  has more", "of sd 9 on each; --json\n  has more"),
        ("or on_small_lambda='increase'.", "or --on-small-lambda increase."),
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


@pytest.mark.parametrize("rest", ["", "--spend inference", "--row-norm 1", "--model svm"])
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
