"""Many processes that charge one ledger, and processes that are killed while they charge."""

import json
import subprocess
import sys

from privatelr import GuaranteeError, Ledger, PureDP, load
from privatelr.privacy.accounting import account_with

EIGHTH = PureDP(0.125)

CROWD = """
import os, sys
from privatelr import GuaranteeError, Ledger, PureDP, load
path, processes, charges = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
reading, writing = os.pipe()
children = []
Ledger.open(path)  # what it needs is imported once, before the forks
for _ in range(processes):
    if (child := os.fork()) == 0:
        for _ in range(charges):
            try:
                Ledger.open(path).charge(PureDP(1.0))
                os.write(writing, b"+")
            except GuaranteeError as error:
                os.write(writing, b"-" if "what is left is epsilon 0." in str(error) else b"?")
        os._exit(0)
    children.append(child)
os.close(writing)
said = b""
while block := os.read(reading, 65536):
    said += block
for child in children:
    os.waitpid(child, 0)
print(said.count(b"+"), said.count(b"-"), len(said))
"""


def crowd(path, processes, charges):
    command = [sys.executable, "-c", CROWD, str(path), str(processes), str(charges)]
    done = subprocess.run(command, capture_output=True, check=True)
    return [int(count) for count in done.stdout.split()]


def check_crowd(path, processes, charges, budget):
    ledger = Ledger.create(path, float(budget))
    said = crowd(path, processes, charges)
    assert said == [budget, processes * charges - budget, processes * charges]
    assert len(ledger.entries) == budget
    assert (ledger.spent(), ledger.left()) == (budget, 0)
    assert Ledger.check(path) == ()


KILLED = """
import os, random, signal, sys, time
from privatelr import Ledger, PureDP
path, kills, seed = sys.argv[1], *map(int, sys.argv[2:])
times, ledger = random.Random(seed), Ledger.open(path)
began = time.monotonic()
ledger.charge(PureDP(1e-6))
each = time.monotonic() - began
print(1, 1)
for _ in range(kills):
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        while True:
            ledger.charge(PureDP(1e-6))
            os.write(writing, b"+")
    os.close(writing)
    time.sleep(times.uniform(0, 10 * each))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said = b""
    while block := os.read(reading, 65536):
        said += block
    os.close(reading)
    ledger.charge(PureDP(1e-6))  # waits for what a server may still do for the one that is dead
    print(len(said) + 1, len(ledger.entries))
"""


def check_kills(path, kills, seed):
    """Kill a process that charges, at random points, and count what it said and what is there."""
    ledger = Ledger.create(path, 1.0)
    command = [sys.executable, "-c", KILLED, str(path), str(kills), str(seed)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    before = 0
    for line in done.stdout.splitlines():
        said, after = map(int, line.split())
        # a charge that was told of is there, and at most the one that was not told of yet
        assert before + said <= after <= before + said + 1
        before = after
    assert before > kills / 2
    assert Ledger.check(path) == ()
    ledger.charge(PureDP(1e-6))


SAVING = """
import os, random, signal, sys, time
from privatelr.cli import main
ledger, kills, seed = sys.argv[1], *map(int, sys.argv[2:])
times = random.Random(seed)

def fit(name):
    if main(["fit", "table.csv", "y ~ age", "--bounds", "age=18:90", "--bounds", "y=0:1",
             "--eps", "1e-3", "--do-scale", "no", "--ledger", ledger, "--out", name]):
        raise SystemExit("no fit was saved")

began = time.monotonic()
fit("warm.json")
began = time.monotonic()
fit("first.json")
longest = 4 * (time.monotonic() - began)
for kill in range(kills):
    if (child := os.fork()) == 0:
        for number in range(1000):
            fit(f"{kill}-{number}.json")
    time.sleep(times.uniform(0, longest))
    while kill == kills - 1 and not os.path.exists(f"{kill}-0.json"):
        time.sleep(0.01)  # on a busy machine no other child may have come to the end of a fit
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def check_kills_of_saves(home, address, kills, seed):
    """Kill a fit, in the folder of its table: it leaves a whole file or none, with its charge."""
    command = [sys.executable, "-c", SAVING, str(address), str(kills), str(seed)]
    subprocess.run(command, cwd=home, capture_output=True, check=True, timeout=1800)
    assert Ledger.check(address) == ()
    ledger = Ledger.open(address)
    saved = {path.name: load(path) for path in home.glob("*.json")}
    assert len(saved) > 2
    for name, model in saved.items():
        assert ledger.knows(model.release.entry), name
    hashes = {json.loads(path.read_text())["sha256"] for path in home.glob("*.json")}
    released = {one.release for one in ledger.charges if one.release is not None}
    assert released <= hashes
    assert len(hashes - released) <= kills  # killed between the file and the row
    assert len(ledger.charges) >= len(saved)
    ledger.charge(PureDP(1e-3))


def charge_in_worker(path=None):
    """What a fit does in a worker: charge what is active there, or what it is given."""
    try:
        account = account_with(path)
        return None if account is None else account.charge(EIGHTH).label
    except GuaranteeError as refused:
        return str(refused)
