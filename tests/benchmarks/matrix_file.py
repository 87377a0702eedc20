"""What a large file of ``lrsimple`` or ``svmsimple`` costs.

    python -m tests.benchmarks.matrix_file [--rows N] [--columns D] [--digits K]

makes such a file in a temporary folder, reads it, and runs both programs on it as commands.
Prints seconds on the wall and of the processor, and the largest memory of each command. One
thread of linear algebra (``OPENBLAS_NUM_THREADS=1``) is the fastest on a machine that does other
things.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from privatelr.selection.c_programs import LRSIMPLE, SVMSIMPLE
from privatelr.selection.matrix_text import read_header, read_rows

BLOCK = 10_000


def write(path, program, n, d, digits):
    """A file whose rows are within the unit ball and whose labels follow a logistic model."""
    rng = np.random.default_rng(0)
    labels = []
    with path.open("w", encoding="ascii") as stream:
        stream.write(f"{n} {d} 0.001 1" + " 0.5" * (program is SVMSIMPLE) + "\n")
        line = " ".join([f"%.{digits}g"] * d) + "\n"
        for start in range(0, n, BLOCK):
            size = min(BLOCK, n - start)
            x = rng.uniform(-1, 1, (size, d)) / np.sqrt(d)
            stream.write((line * size) % tuple(x.ravel().tolist()))
            y = x @ np.linspace(-6, 6, d) + rng.logistic(size=size) > 0
            labels += ["1" if positive else "-1" for positive in y]
        stream.write(" ".join(labels) + "\n")


def read(path, program):
    with path.open("rb") as stream:
        read_rows(*read_header(stream, program.numbers), path.stat().st_size)


def timed(action):
    """Seconds on the wall, and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


RUN = """
import resource, sys, time
start = time.perf_counter()
from privatelr.cli import program_commands
middle = time.perf_counter()
status = getattr(program_commands, sys.argv[1])(sys.argv[2:])
end = time.perf_counter()
used = resource.getrusage(resource.RUSAGE_SELF)
print(
    f"{middle - start:.1f} s to start, {end - middle:.1f} s to run, together "
    f"{used.ru_utime + used.ru_stime:.1f} s of processor; {used.ru_maxrss / 1024:.0f} MB",
    file=sys.stderr,
)
sys.exit(status)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--digits", type=int, default=6, help="significant digits; 17 is exact")
    chosen = parser.parse_args()
    numbers = chosen.rows * chosen.columns
    with tempfile.TemporaryDirectory() as folder:
        for program in (LRSIMPLE, SVMSIMPLE):
            path = Path(folder) / f"{program.name}.txt"
            write(path, program, chosen.rows, chosen.columns, chosen.digits)
            size = path.stat().st_size
            wall, processor = timed(lambda path=path, program=program: read(path, program))
            print(f"{program.name}: {chosen.rows} x {chosen.columns}, {size / 1e6:.0f} MB")
            each = 1e9 * processor / numbers
            print(f"  reader: {wall:.1f} s, {processor:.1f} s of processor, {each:.0f} ns a number")
            command = [sys.executable, "-c", RUN, program.name, str(path)]
            found = subprocess.run(
                command, capture_output=True, text=True, check=True, env=os.environ
            )
            print(f"  command: {found.stderr.strip()}")
            path.unlink()


if __name__ == "__main__":
    main()
