"""``lrsimple`` and ``svmsimple``: what the published programs print, and what theirs does not."""

import gzip
import io
import json
import math
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from frames_for_laws import require_fresh

from privatelr.cli import lrsimple, main, program_commands, svmsimple
from privatelr.errors import GuaranteeError, NotConvergedError
from privatelr.privacy.noise import FloatDraw, SphericalLaplace, SystemRandomness
from privatelr.selection import c_programs
from privatelr.selection.c_programs import (
    ALL,
    LRSIMPLE,
    NON_PRIVATE,
    OBJECTIVE,
    OUTPUT,
    SVMSIMPLE,
    run_program,
)
from privatelr.selection.matrix_text import MatrixFileError

REPOSITORY = Path(__file__).parents[2]
PUBLISHED = json.loads(
    (REPOSITORY / "tests/reference/cms_c/reference.json").read_text(encoding="utf-8")
)
PROGRAMS = {"lr": LRSIMPLE, "svm": SVMSIMPLE}
LOSSES = {
    "lr": (lambda z: np.logaddexp(0, -z), lambda z: -1 / (1 + np.exp(z))),
    "svm": (
        lambda z: np.where(z < 0.5, 1 - z, np.clip(1.5 - z, 0, None) ** 2 / 2),
        lambda z: -np.clip(1.5 - z, 0, 1),
    ),
}
"""Value and slope for margins: logistic, and Huber with h = 1/2."""


def blood(name):
    """An example input of the published programs, or a skip where there is none."""
    home = os.environ.get("PRIVATELR_DATA_HOME", REPOSITORY.parent / "shared/data")
    path = Path(home) / f"{name}.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not there; PRIVATELR_DATA_HOME is the folder of data")
    return gzip.decompress(path.read_bytes())


class Given:
    """Noise that was used before; everything else that is drawn is zero."""

    is_secret = False

    def __init__(self, *noises):
        self.noises, self.laws = list(noises), []

    def draw(self, law):
        self.laws.append(law)
        is_noise = isinstance(law, SphericalLaplace) and len(self.laws) % 2
        noise = self.noises.pop(0) if is_noise else np.zeros(law.dimension)
        return FloatDraw(np.asarray(noise, dtype=np.float64))


def parsed(data, header):
    numbers = np.array([float(token) for token in data.split()])
    n, d = int(numbers[0]), int(numbers[1])
    x, y = numbers[header : header + n * d].reshape(n, d), numbers[header + n * d :]
    return numbers[:header], x * y[:, None]


def mean_gradient(kind, data, w, tilt):
    """Of the published objective, written out once more."""
    (n, _, lambda_, *_), signed = parsed(data, 4 if kind == "lr" else 5)
    return (LOSSES[kind][1](signed @ w) @ signed + tilt) / n + lambda_ * w


@pytest.mark.parametrize("kind", ["lr", "svm"])
def test_the_published_lines(kind):
    """All six lines, with the noise that the programs used.

    Their tolerance holds for five lines. In the objective line of ``lrsimple`` the program
    stopped at a gradient of 1.4e-5, up to 3.6e-4 from the minimiser.
    """
    case = PUBLISHED[kind]
    data = blood(case["file"])
    given = Given(case["output_noise"], case["objective_noise"])
    result = run_program(PROGRAMS[kind], io.BytesIO(data), given)
    assert [line.returned for line in result.lines] == case["returned"]
    for index, (line, printed) in enumerate(zip(result.lines, case["lines"], strict=True)):
        stopped_early = kind == "lr" and index == 2
        tolerance = 4e-4 if stopped_early else case["tolerance"]
        np.testing.assert_allclose(line.coef, printed, rtol=0, atol=tolerance)
    for index, tilt in ((0, np.zeros(5)), (2, np.array(case["objective_noise"]))):
        ours = mean_gradient(kind, data, result.lines[index].coef, tilt)
        theirs = mean_gradient(kind, data, np.array(case["lines"][index]), tilt)
        # rows are shortened by up to 1e-8, and the last line is rounded to its grid
        assert np.linalg.norm(ours) < 1e-7 < 1e-6 < np.linalg.norm(theirs)


def test_the_comparison_sees_other_noise():
    case = PUBLISHED["lr"]
    data = blood(case["file"])
    halved = Given(*(np.array(case[f"{name}_noise"]) / 2 for name in ("output", "objective")))
    result = run_program(LRSIMPLE, io.BytesIO(data), halved)
    for line, printed in zip(result.lines[1:], case["lines"][1:], strict=True):
        assert np.abs(line.coef - printed).max() > 0.05


@pytest.mark.parametrize("kind", ["lr", "svm"])
@pytest.mark.parametrize("lambda_", ["1e-12", "1e-4", "1e4"])
@pytest.mark.parametrize("epsilon", ["1e-9", "1e-4", "1", "1e4"])
def test_extreme_headers_take_no_longer(kind, lambda_, epsilon):
    tokens = blood(PUBLISHED[kind]["file"]).split()
    for h in (b"1e-3", b"0.1") if kind == "svm" else (None,):
        tokens[2:4] = [lambda_.encode(), epsilon.encode()]
        tokens[4:5] = [h] if h else tokens[4:5]
        data = b" ".join(tokens)
        start = time.process_time()
        output = run_program(PROGRAMS[kind], io.BytesIO(data), SystemRandomness(), [OUTPUT])
        assert output.lines[0].returned == 0
        with suppress(GuaranteeError):  # too little of epsilon is left
            run_program(PROGRAMS[kind], io.BytesIO(data), SystemRandomness())
        assert time.process_time() - start < 2


def example(kind="lr", n=60, d=3, lambda_=0.05, epsilon=0.8, h=0.5, scale=1.0, seed=0):
    """A file in the published format, with rows of length `scale` at most."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, d)) / math.sqrt(d) * scale
    y = np.where(x @ np.arange(1, d + 1) + rng.logistic(size=n) / 3 > 0, 1, -1)
    header = f"{n} {d} {lambda_!r} {epsilon!r}" + (f" {h!r}" if kind == "svm" else "")
    rows = "\n".join(" ".join(map(repr, row)) for row in x.tolist())
    return f"{header}\n{rows}\n{' '.join(map(str, y))}\n".encode()


@pytest.fixture
def command_line(tmp_path, capsys, monkeypatch):
    """Run a command on bytes; returns its status and what it printed."""

    def run(program, data, *options, standard_input=False):
        path = tmp_path / "data.txt"
        path.write_bytes(data)
        name = "-" if standard_input else str(path)
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
            status = program([name, *options])
        printed = capsys.readouterr()
        return status, printed.out, printed.err.replace(str(path), "data.txt")

    return run


NUMBERS = re.compile(r"(-?\d+\.\d{6} ){3}0")


@pytest.mark.parametrize(("kind", "program"), [("lr", lrsimple), ("svm", svmsimple)])
def test_three_lines(kind, program, command_line):
    data = example(kind)
    status, out, err = command_line(program, data)
    assert (status, err) == (0, "")
    assert out.endswith("0\n")
    lines = out.splitlines()
    assert len(lines) == 3
    assert all(NUMBERS.fullmatch(line) for line in lines)
    plain = np.array([float(number) for number in lines[0].split()[:-1]])
    assert np.linalg.norm(mean_gradient(kind, data, plain, np.zeros(3))) < 1e-5
    again = command_line(program, data, standard_input=True)[1].splitlines()
    assert again[0] == lines[0]
    assert again[1] != lines[1]
    assert again[2] != lines[2]


@pytest.mark.parametrize("kind", ["lr", "svm"])
def test_the_size_of_the_noise(kind):
    """Noise norms are Gamma(d, 2 / eps') for the tilt, and Gamma(d, 2 / (n lambda eps))."""
    given = Given(np.zeros(3), np.zeros(3))
    n, lambda_, epsilon, h = 60, 0.05, 0.8, 0.4
    data = example(kind, n=n, lambda_=lambda_, epsilon=epsilon, h=h)
    result = run_program(PROGRAMS[kind], io.BytesIO(data), given, [OUTPUT, OBJECTIVE])
    c = 0.25 if kind == "lr" else 1 / (2 * h)
    left = epsilon - 2 * math.log(1 + c / (n * lambda_))
    assert result.epsilon_prime == pytest.approx(left, rel=1e-12)
    output, _, tilt, _ = given.laws
    assert output.rate == pytest.approx(epsilon * n * lambda_ / 2, rel=1e-9)
    # a hundredth pays for releasing what a solver found in place of the exact minimiser
    assert 0.989 * left / 2 <= tilt.rate <= left / 2
    assert output.rate <= epsilon * n * lambda_ / 2


def test_which_lines(command_line):
    data = example()
    three = command_line(lrsimple, data, "--seed", "5", "--released-only")
    assert three[0] == 0
    assert len(three[1].splitlines()) == 2
    for title in ("output", "objective"):
        status, out, _ = command_line(lrsimple, data, "--line", title)
        assert status == 0
        assert NUMBERS.fullmatch(out.strip())
    assert usage_error(["x", "--line", "non-private"]) == 2
    assert usage_error(["x", "--line", "output", "--released-only"]) == 2


def usage_error(arguments):
    return lrsimple(arguments)


def released(data, *wanted, noise=(0.0, 0.0, 0.0)):
    given = Given(*([noise] * len(wanted)))
    return run_program(LRSIMPLE, io.BytesIO(data), given, wanted).lines


def test_which_line_is_which():
    """Zero noise makes the private lines the plain fit, up to what they are rounded to."""
    plain, output, objective = released(example(), *ALL)
    assert (plain.wanted, output.wanted, objective.wanted) == ALL
    assert np.abs(output.coef - plain.coef).max() < 2e-3
    np.testing.assert_allclose(objective.coef, plain.coef, atol=1e-8)
    _, moved, tilted = released(example(), *ALL, noise=(1.0, 0.0, 0.0))
    np.testing.assert_allclose(moved.coef - output.coef, (1, 0, 0), atol=1e-9)
    assert -1 / (60 * 0.05) < tilted.coef[0] - plain.coef[0] < 0


def test_a_seed_is_a_warning(command_line):
    data = example("svm")
    first, second = (command_line(svmsimple, data, "--seed", "7") for _ in range(2))
    other = command_line(svmsimple, data, "--seed", "8")
    assert first == second
    assert first[1].splitlines()[1:] != other[1].splitlines()[1:]
    assert first[0] == 0
    assert first[2].count("\n") == 1
    assert (
        "svmsimple: --seed 7: the noise can be replayed, so this output is not private" in first[2]
    )
    for seed in ("-1", "1.5", "x", "\u0661"):
        assert usage_error(["x", "--seed", seed]) == 2


def test_rows_are_shortened():
    long = example(scale=3.0)
    signed = parsed(long, 4)[1]
    lengths = np.linalg.norm(signed, axis=1)
    assert (lengths > 1).any()
    assert (lengths < 1).any()
    tokens = long.split()
    short = signed / np.maximum(lengths, 1)[:, None]
    labels = np.array([float(token) for token in tokens[-60:]])
    tokens[4:-60] = [repr(x).encode() for x in (short * labels[:, None]).ravel().tolist()]
    (ours,), (theirs,) = released(long, NON_PRIVATE), released(b" ".join(tokens), NON_PRIVATE)
    np.testing.assert_allclose(ours.coef, theirs.coef, atol=1e-9)


NASTY = {
    "one class": b"3 2 0.2 0.9 .5 .5 .1 .2 .3 .4 1 1 1",
    "zeros": b"3 2 0.1 2 0 0 -0 0 0 0 1 -1 1",
    "large": b"3 2 1 1 1e308 1e308 -1e308 1e308 1e-308 5e-324 1 -1 1",
    "separated": b"4 1 1e-12 200 1 1 -1 -1 1 1 -1 -1",
    "contradicting": b"2 2 0.1 4 1 0 1 0 1 -1",
    "one row": b"1 1 1 1 1 1",
}


@pytest.mark.parametrize("name", NASTY)
def test_private_lines_always_return_0(name, command_line, monkeypatch):
    """Whether a solver succeeds is a function of the data, so nothing may tell."""
    data = NASTY[name]
    status, out, err = command_line(lrsimple, data)
    assert (status, err) == (0, "")
    assert [line.split()[-1] for line in out.splitlines()[1:]] == ["0", "0"]

    def never(objective):
        raise NotConvergedError("never")

    monkeypatch.setattr(c_programs, "Newton", lambda: never)
    status, out, err = command_line(lrsimple, data)
    assert (status, err) == (0, "")
    d = int(data.split()[1])
    assert out.splitlines()[0] == "nan " * d + "1"
    assert [line.split()[-1] for line in out.splitlines()[1:]] == ["0", "0"]
    assert "nan" not in "".join(out.splitlines()[1:])


def header_with(left, kind="lr", n=60, lambda_=0.05):
    """An example whose eps' is `left`, to the last few bits."""
    c = 0.25 if kind == "lr" else 1.0
    return example(kind, epsilon=left + 2 * math.log1p(c / (n * lambda_)), lambda_=lambda_)


@pytest.mark.parametrize(("kind", "program"), [("lr", lrsimple), ("svm", svmsimple)])
def test_too_little_of_epsilon_is_left(kind, program, command_line):
    status, out, err = command_line(program, header_with(0.99e-4, kind))
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert "eps'=9.9e-05: objective perturbation takes an eps' of 0.0001 or more" in err
    assert command_line(program, header_with(1.01e-4, kind), "--released-only")[0] == 0
    assert command_line(program, header_with(-1, kind, lambda_=1e-3), "--line", "output")[0] == 0


@pytest.mark.parametrize("lambda_", [1e-15, 1e-6, 3e-3])
@pytest.mark.parametrize("epsilon", [1e-9, 0.05, 1.0])
def test_the_remedies_work(lambda_, epsilon):
    data = example("svm", lambda_=lambda_, epsilon=epsilon)
    with pytest.raises(GuaranteeError) as caught:
        run_program(SVMSIMPLE, io.BytesIO(data), SystemRandomness(), [OBJECTIVE])
    found = re.search(r"raise eps to (\S+), or take --line", str(caught.value))
    more = example("svm", lambda_=lambda_, epsilon=float(found[1]))
    run_program(SVMSIMPLE, io.BytesIO(more), SystemRandomness(), [OBJECTIVE])


def test_what_the_header_decides_is_said_before_the_body_is_read(command_line):
    refusal = command_line(lrsimple, b"60 3 1e-9 1\nnot even numbers")
    assert refusal[0] == 1
    assert refusal == command_line(lrsimple, b"60 3 1e-9 1\n" + b"1 " * 1000)


def test_errors_name_the_file_and_the_place(command_line, tmp_path, capsys):
    bad = example().replace(b"\n", b"\n\n", 1).replace(b"-1 ", b"0 ", 1)
    status, out, err = command_line(lrsimple, bad)
    assert (status, out) == (2, "")
    assert re.fullmatch(
        r"lrsimple: data.txt: line 63, number \d+ \(label of row \d+\): '0' is no label; "
        r"after a header of 4 numbers and 60 x 3 features come labels, each -1 or 1.\n",
        err,
    )
    assert (
        "lrsimple: standard input: line 63" in command_line(lrsimple, bad, standard_input=True)[2]
    )
    for name in ("missing.txt", ""):
        status = svmsimple([str(tmp_path / name)])
        printed = capsys.readouterr()
        assert (status, printed.out) == (2, "")
        assert printed.err.count("\n") == 1
        assert "svmsimple: '" in printed.err
        assert "cannot be opened" in printed.err


def test_standard_input_that_cannot_be_read(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    assert lrsimple(["-"]) == 2
    assert capsys.readouterr().err == "lrsimple: standard input: it is closed.\n"

    class Broken(io.RawIOBase):
        def read(self, size=-1):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr("sys.stdin", type("Text", (), {"buffer": Broken()})())
    assert lrsimple(["-"]) == 2
    assert "standard input: it cannot be read (input/output error)." in capsys.readouterr().err


def test_json(command_line):
    data = example("svm", h=0.25, epsilon=1.8)
    status, out, err = command_line(svmsimple, data, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    lines = found.pop("lines")
    assert found.pop("eps_prime") == pytest.approx(1.8 - 2 * math.log(1 + 2 / 3))
    assert found == {
        "program": "svmsimple",
        "n": 60,
        "d": 3,
        "lambda": 0.05,
        "eps": 1.8,
        "h": 0.25,
        "eps_total": 3.6,
    }
    assert [line["line"] for line in lines] == ["non-private", "output", "objective"]
    assert [line["private"] for line in lines] == [False, True, True]
    printed = command_line(svmsimple, data)[1].splitlines()[0]
    assert " ".join([*(f"{x:.6f}" for x in lines[0]["coefficients"]), "0"]) == printed
    seeded = json.loads(command_line(svmsimple, data, "--json", "--seed", "1")[1])
    assert seeded["eps_total"] is None
    assert not any(line["private"] for line in seeded["lines"])
    logistic = json.loads(command_line(lrsimple, example(), "--json", "--line", "output")[1])
    assert "h" not in logistic
    assert logistic["eps_total"] == 0.8


def test_json_has_no_nan(command_line, monkeypatch):
    def never(objective):
        raise NotConvergedError("never")

    monkeypatch.setattr(c_programs, "Newton", lambda: never)
    line = json.loads(command_line(lrsimple, example(), "--json")[1])["lines"][0]
    assert (line["coefficients"], line["returned"]) == ([None] * 3, 1)


def test_subcommands(command_line):
    data = example()
    direct = command_line(lrsimple, data, "--seed", "3")
    below = command_line(lambda rest: main(["lrsimple", *rest]), data, "--seed", "3")
    assert below[:2] == direct[:2]
    assert below[2] == direct[2].replace("lrsimple: ", "privatelr: ")


@pytest.mark.parametrize("program", [lrsimple, svmsimple])
def test_the_help_is_honest(program, capsys):
    assert program(["--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    for promise in (
        "The first line is not private; --released-only leaves it out",
        "alone is eps-differentially private when one row and its label are replaced",
        "to publish both costs 2 eps",
        "nothing covers it: do not publish it",
        "It voids the guarantee",
    ):
        assert promise in words


def test_an_interrupt_is_one_line(command_line, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(program_commands, "run_program", interrupted)
    assert command_line(lrsimple, example()) == (130, "", "lrsimple: interrupted.\n")


def test_a_reader_that_leaves(tmp_path):
    """As in ``lrsimple data.txt | head -0``."""
    path = tmp_path / "data.txt"
    path.write_bytes(example())
    code = "import sys; from privatelr.cli import lrsimple; sys.exit(lrsimple())"
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        found = subprocess.run(
            [sys.executable, "-c", code, str(path)], stdout=closed, stderr=subprocess.PIPE
        )
    assert found.stderr == b""
    assert found.returncode == 141


def test_the_noise_is_the_systems():
    """Runs have nothing in common, which of the published programs cannot be said."""
    runs = [
        run_program(LRSIMPLE, io.BytesIO(example()), SystemRandomness()).lines for _ in range(3)
    ]
    plain, *private = ([line.coef for line in lines] for lines in zip(*runs, strict=True))
    assert (np.ptp(plain, axis=0) == 0).all()
    assert len(private) == 2
    for coefs in private:
        require_fresh(coefs)


def test_both_programs_take_their_own_header():
    with pytest.raises(MatrixFileError, match="after the last label"):
        run_program(LRSIMPLE, io.BytesIO(b"1 1 1 2 0.5 1 1"), SystemRandomness())
    with pytest.raises(MatrixFileError, match="ends after"):
        run_program(SVMSIMPLE, io.BytesIO(b"1 1 1 2 0.5 1"), SystemRandomness())
