"""The plot of a ledger: what was spent, charge by charge, against the budget."""

from itertools import pairwise

import pytest

from privatelr.errors import ArgumentError
from privatelr.privacy import ZCDP, PureDP
from privatelr.privacy.accounting import Ledger, ledger_page

pytest.importorskip("matplotlib").use("agg")


def bars_of(axes):
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]


def budget_of(axes):
    (line,) = [line for line in axes.lines if "budget" in str(line.get_label())]
    return line.get_xdata()[0]


def check_every_charge_is_drawn():
    ledger, after = Ledger(3.0, 1e-6), [0.0]
    for number, price in enumerate((PureDP(0.5), ZCDP(0.01), ZCDP(0.02), PureDP(0.2))):
        ledger.charge(price, label=f"fit {number}")
        after.append(ledger.spent())
    axes = ledger.plot()
    flat = [end for bar in bars_of(axes) for end in bar]
    assert flat == pytest.approx([end for pair in pairwise(after) for end in pair])
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"fit {i}" for i in range(4)]
    assert budget_of(axes) == 3.0
    assert "1e-06" in axes.get_xlabel()


def test_every_charge_is_drawn_from_what_was_spent_to_what_is(monkeypatch):
    check_every_charge_is_drawn()
    monkeypatch.setattr(ledger_page, "replace", lambda one, entries: one)  # all charges at once
    with pytest.raises(AssertionError):
        check_every_charge_is_drawn()


def test_a_ledger_without_charges_and_one_on_disk_are_drawn(tmp_path):
    axes = Ledger(1.0).plot()
    assert bars_of(axes) == []
    assert budget_of(axes) == 1.0
    ledger = Ledger.create(tmp_path / "study.ledger", 2.0)
    ledger.charge(PureDP(0.5), label="y ~ " + " + ".join(f"x{i}" for i in range(40)))
    ledger.part("half").charge(PureDP(0.25))
    axes = ledger.plot(ax=axes)
    assert bars_of(axes) == [(0.0, 0.5), (0.5, 0.75)]
    first, second = (label.get_text() for label in axes.get_yticklabels())
    assert len(first) <= 40
    assert second == "(no label) [half]"
    with pytest.raises(ArgumentError, match="ax of type"):
        ledger.plot(ax=3)
