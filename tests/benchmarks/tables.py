"""Results of a run as Markdown, and what changed since another run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .race import best

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

GOALS = {"1e6x50": 0.5, "1e3x5": 1.0, "a9a": 0.7, "a9a-csr": 0.7}
"""Largest median ratio to the best peer of equal accuracy."""
FLOOR_GOALS = {"1e6x50": 12.0}
_UNCACHED = 2**22
"""Entries of a matrix that no cache holds: a smaller one is read in no time."""
_CLEAR = 0.1
"""A change of a ratio by less than this is not remarked upon."""


def report(results: dict[str, Any]) -> str:
    """All parts of a run that there are."""
    parts = [_machine(results["machine"])]
    cells = results.get("cells", {})
    if cells:
        parts += [_summary(cells), _peers(cells)]
    for name, title in (("rows", "n"), ("columns", "d")):
        if name in results.get("growth", {}):
            parts.append(_growth(results["growth"][name], title))
    shown = {"memory": _memory, "calls": _calls, "engines": of_engines}
    for name, show in shown.items():
        if name in results:
            parts.append(show(results[name]))
    return "\n\n".join(parts)


def _machine(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['processors']} processors, {machine['threads']} threads at most, "
        f"load {machine['load'][0]:.1f} before and "
        f"{machine['load'][1]:.1f} after; {versions}."
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _summary(cells: dict[str, Any]) -> str:
    head = ("problem", "ours", "passes", "gradient", "of one read of X", "best peer as accurate")
    rows = []
    for name, cell in cells.items():
        passes = f"{cell['passes']['full']} + {cell['passes']['thinned']:.1f}"
        floor = ""
        if cell["n"] * cell["d"] >= _UNCACHED:
            floor = f"{_spread(cell['floor'])}{_goal(name, cell['floor'], FLOOR_GOALS)}"
        found = best(cell)
        peer = "none"
        if found is not None:
            peer = f"{found[0]}: {_spread(found[1])}{_goal(name, found[1], GOALS)}"
        row = (name, _time(cell["seconds"]), passes, f"{cell['gradient']:.0e}", floor, peer)
        rows.append(row)
    note = "Passes: folds over all rows, and what folds over some of them add up to."
    return f"{table((*head,), rows)}\n\n{note}"


def _peers(cells: dict[str, Any]) -> str:
    names = list(dict.fromkeys(name for cell in cells.values() for name in cell["peers"]))
    rows = (
        (name, *(_peer(cell["peers"].get(peer)) for peer in names)) for name, cell in cells.items()
    )
    note = (
        "Ours / theirs: median of paired ratios (quartiles). In brackets the gradient of a peer "
        "that does not come as far as everybody is asked to, whose ratio is not one of equals."
    )
    return f"{table(('problem', *names), rows)}\n\n{note}"


def _peer(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    return _spread(found) + ("" if found["equal"] else f" [{found['gradient']:.0e}]")


def _spread(found: dict[str, Any]) -> str:
    return f"{found['median']:.2g} ({found['low']:.2g} to {found['high']:.2g})"


def _goal(name: str, found: dict[str, Any], goals: dict[str, float]) -> str:
    if name not in goals:
        return ""
    met = "met" if found["median"] <= goals[name] else "MISSED"
    return f", goal {goals[name]:g} {met}"


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _growth(found: dict[str, Any], title: str) -> str:
    head = ("n", "d", "ours", "passes", "a pass", "of one read of X", f"slope in {title}")
    slopes = ["", *(f"{step:.2f}" for step in found["steps"])]
    rows = [
        (
            f"{point['n']:.0e}",
            str(point["d"]),
            _time(point["seconds"]),
            f"{point['full']} + {point['thinned']:.1f}",
            _time(point["pass"]),
            f"{point['floor']:.3g}",
            slope,
        )
        for point, slope in zip(found["points"], slopes, strict=True)
    ]
    note = (
        f"On one thread a pass takes time like {title} to the power "
        f"{found['slope of a pass']:.2f}, and a fit, with its passes, like {title} to the power "
        f"{found['slope']:.2f}."
    )
    return f"{table(head, rows)}\n\n{note}"


def _memory(found: dict[str, float]) -> str:
    rows = [(name, f"{over:.2f}") for name, over in found.items()]
    return table(("peak memory beyond the input", "times the matrix"), rows)


def _calls(found: dict[str, Any]) -> str:
    goals = {name: case["goal"] for name, case in found.items()}
    rows = [
        (
            name,
            peer,
            _time(one["ours"]),
            _time(one["seconds"]),
            f"{_spread(one)}{_goal(name, one, goals)}",
        )
        for name, case in found.items()
        for peer, one in case["peers"].items()
    ]
    return table(("dplr from a frame", "beside", "ours", "theirs", "ours / theirs"), rows)


def of_engines(found: dict[str, Any]) -> str:
    """Times of the same fit from several engines."""
    rows = [
        (name, one["left out"], "")
        if "left out" in one
        else (name, _time(one["seconds"]), _spread(one))
        for name, one in found["engines"].items()
    ]
    title = f"{found['n']:.0e} records of {found['d']} columns"
    return table((title, "time", "of a stream's"), rows)


def compare(old: dict[str, Any], new: dict[str, Any]) -> str:
    """How ratios changed from one run to another, where both have them."""
    rows = []
    for name, before, after in _shared(old, new):
        change = after / before - 1
        remark = "" if abs(change) < _CLEAR else ("slower" if change > 0 else "faster")
        rows.append((name, f"{before:.3g}", f"{after:.3g}", f"{change:+.0%}", remark))
    return table(("ratio", "then", "now", "change", ""), rows)


def _shared(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    before, after = dict(_ratios(old)), dict(_ratios(new))
    for name, value in after.items():
        if name in before and before[name] > 0:
            yield name, before[name], value


def _ratios(results: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, cell in results.get("cells", {}).items():
        yield f"{name}, one read of X", cell["floor"]["median"]
        for peer, found in cell["peers"].items():
            yield f"{name}, {peer}", found["median"]
    for name, over in results.get("memory", {}).items():
        yield f"memory, {name}", over
    for name, found in results.get("growth", {}).items():
        yield f"growth in {name}", found["slope"]
        yield f"growth in {name}, a pass", found["slope of a pass"]
    for name, case in results.get("calls", {}).items():
        for peer, found in case["peers"].items():
            yield f"call {name}, {peer}", found["median"]
    for name, found in results.get("engines", {}).get("engines", {}).items():
        if "median" in found:
            yield f"engine {name}", found["median"]
