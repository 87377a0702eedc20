"""Bugs planted in the package on purpose, and whether the audit sees them."""

from privatelr.audit.mutations.score import MUTATIONS, Score, Shown, run

__all__ = ["MUTATIONS", "Score", "Shown", "run"]
