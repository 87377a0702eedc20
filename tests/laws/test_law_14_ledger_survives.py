"""Law 14: a ledger survives clone, deepcopy, pickle, searches and workers: charged or refused."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from frames_for_laws import MODELS, clinic, fit_clinic
from ledgers_at_work import EIGHTH, charge_in_worker

from privatelr import GuaranteeError
from privatelr.privacy.accounting import Ledger, account_with


class Model:
    """An estimator as scikit-learn knows them: parameters that it can read, set and copy."""

    def __init__(self, ledger=None, strength=1.0):
        self.ledger, self.strength = ledger, strength

    def get_params(self, deep=True):
        return {"ledger": self.ledger, "strength": self.strength}

    def set_params(self, **params):
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def fit(self, x, y=None):
        self.ledger.charge(EIGHTH, label="fit")
        return self

    def score(self, x, y=None):
        return self.strength


def through_pickle(value, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(value, protocol))


WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": through_pickle,
    "old pickle": lambda value: through_pickle(value, 2),
    "pickle of a pickle": lambda value: through_pickle(through_pickle(value)),
}


def check_account_is_kept(make, carry):
    """Whoever charges what arrives has charged what was sent."""
    ledger = make()
    model = carry(Model(ledger))
    for _ in range(8):
        model.fit(None)
    assert ledger.spent() == 1.0
    with pytest.raises(GuaranteeError, match="what is left is epsilon 0"):
        carry(model).fit(None)


@pytest.mark.parametrize("way", WAYS)
def test_law(way):
    check_account_is_kept(lambda: Ledger(1.0), WAYS[way])


@pytest.mark.parametrize("way", WAYS)
def test_parts_too(way):
    ledger = Ledger(1.0)
    part = WAYS[way](ledger.part("train"))
    part.charge(EIGHTH)
    assert ledger.entries[0].part == "train"
    assert part.places == ((ledger, "train"),)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("spend", [None, "inference"])
def test_fits_of_every_model_charge_what_arrives(model, op, spend):
    ledger = Ledger(1.0)
    options = {"model": model, "op": op, "eps": 0.2, "spend": spend}
    for way in WAYS.values():
        fit_clinic(clinic(), ledger=way(ledger), **options)
    assert ledger.spent() == 1.0
    with pytest.raises(GuaranteeError, match="what is left is epsilon 0"):
        fit_clinic(clinic(), ledger=copy.deepcopy(ledger), **options)


class Forgetful(Ledger):
    """Planted: copied value by value, as an accountant that nobody thought about."""

    def __copy__(self):
        return self.__deepcopy__({})

    def __deepcopy__(self, memo):
        return Forgetful.from_json(self.to_json())

    def __reduce__(self):
        return Forgetful.from_json, (self.to_json(),)


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_planted_bug_is_caught(way):
    with pytest.raises(AssertionError):
        check_account_is_kept(lambda: Forgetful(1.0), WAYS[way])


def test_a_block_survives_being_copied():
    with Ledger(1.0) as ledger:
        copy.deepcopy(account_with(None)).charge(EIGHTH)
        with Ledger(1.0) as inner:
            through_pickle(account_with(None)).charge(EIGHTH)
    assert (ledger.spent(), inner.spent()) == (0.25, 0.125)


def test_threads_share_the_ledger():
    ledger = Ledger(1.0)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(Model(copy.deepcopy(ledger)).fit, None) for _ in range(20)]
    refused = [future for future in futures if future.exception() is not None]
    assert len(refused) == 12
    assert ledger.spent() == 1.0


def test_the_account_that_is_gone_is_not_opened_again():
    """A pickle that outlives its ledger is read, and refused."""
    ledger = Ledger(1.0)
    ledger.charge(EIGHTH)
    page = pickle.dumps(ledger)
    del ledger
    revived = pickle.loads(page)
    assert revived.spent() == 0.125
    for copied in (revived, through_pickle(revived), copy.deepcopy(revived)):
        with pytest.raises(GuaranteeError, match=r"resume it with Ledger\.from_json"):
            copied.charge(EIGHTH)
        with pytest.raises(GuaranteeError, match="another process"), copied:
            pass
    resumed = Ledger.from_json(revived.to_json())
    resumed.charge(EIGHTH)
    assert resumed.spent() == 0.25


CHILD = """
import pickle, sys
from privatelr import GuaranteeError, PureDP
from privatelr.privacy.accounting import account_with
given = pickle.load(sys.stdin.buffer)
print(given.spent())
for account in (given, account_with(None)):
    try:
        print(account.charge(PureDP(0.125)))
    except GuaranteeError as refused:
        print(refused)
"""


def test_another_process_is_refused():
    """Given the ledger, or merely started inside its block."""
    ledger = Ledger(1.0)
    ledger.charge(EIGHTH)
    command = [sys.executable, "-c", CHILD]
    with ledger:
        page = pickle.dumps(ledger)
        child = subprocess.run(command, input=page, capture_output=True, check=True)
    spent, given, block = child.stdout.decode().splitlines()
    assert spent == "0.125"
    assert "ledger: it is kept in another process" in given
    assert "ledger: it is kept in another process" in block
    assert ledger.spent() == 0.125


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_that_are_started_inside_a_block(how, tmp_path):
    """They charge the ledger of the block if that is on disk, and are refused otherwise."""
    if how not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {how} here")
    path = tmp_path / "kept.ledger"
    kept, memory = Ledger.create(path, 1.0), Ledger(1.0)

    def work(*given):
        with (
            warnings.catch_warnings(),
            ProcessPoolExecutor(1, multiprocessing.get_context(how)) as pool,
        ):
            warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
            return pool.submit(charge_in_worker, *given).result()

    assert work() is None  # outside of every block
    with kept:
        assert work() == ""
        assert work(str(path)) == ""  # once
        with memory:
            assert "kept in another process" in work()
            assert "kept in another process" in work(str(path))
        assert work() == ""
    assert work() is None
    assert (len(kept.entries), memory.entries) == (3, ())


def test_a_named_ledger_reaches_workers_that_were_started_before(tmp_path, monkeypatch):
    path = tmp_path / "kept.ledger"
    kept = Ledger.create(path, 1.0)
    monkeypatch.setenv("PRIVATELR_LEDGER", str(path))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(charge_in_worker).result() == ""
        with kept:
            assert pool.submit(charge_in_worker).result() == ""
    assert len(kept.entries) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_refused():
    """Even if the fork happens while another thread is charging, and never by waiting for it."""
    from privatelr.privacy.accounting import ledger as module

    ledger = Ledger(1.0)
    held, release = threading.Event(), threading.Event()

    def hold():
        with module.LOCK.lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the test
        child = os.fork()
    if child == 0:
        said = b"charged"
        try:
            through_pickle(ledger).charge(EIGHTH)
        except GuaranteeError as refused:
            said = str(refused).encode()
        finally:
            os.write(writing, said)
            os._exit(0)
    os.waitpid(child, 0)
    release.set()
    thread.join()
    assert b"kept in another process" in os.read(reading, 1000)
    assert ledger.entries == ()


def test_clone_and_grid_search():
    base = pytest.importorskip("sklearn.base", reason="needs scikit-learn")
    from sklearn.model_selection import GridSearchCV

    class Estimator(Model, base.BaseEstimator):
        pass

    check_account_is_kept(lambda: Ledger(1.0), base.clone)
    ledger = Ledger(1.0)
    search = GridSearchCV(Estimator(ledger), {"strength": [1, 2, 3]}, cv=2, error_score="raise")
    search.fit([[0]] * 8, [0, 1] * 4)
    assert len(ledger.entries) == 7  # three candidates on two folds, and the best on all
    with pytest.raises(GuaranteeError, match=r"would make 1\.125 of 1"):
        search.fit([[0]] * 8, [0, 1] * 4)
    assert ledger.spent() == 1.0


@pytest.mark.slow
def test_joblib():
    joblib = pytest.importorskip("joblib", reason="needs joblib")
    ledger = Ledger(1.0)
    work = [joblib.delayed(Model.fit)(Model(ledger), None) for _ in range(4)]
    joblib.Parallel(n_jobs=2, backend="threading")(work)
    assert ledger.spent() == 0.5
    charge = [joblib.delayed(Ledger.charge)(ledger, EIGHTH) for _ in range(2)]
    with pytest.raises(GuaranteeError, match="kept in another process"):
        joblib.Parallel(n_jobs=2, backend="loky")(charge)
    assert ledger.spent() == 0.5
