"""Mechanisms that choose: columns for a fit, corners of a linear program, experts of a play.

`dplpsvm` and `dpsimplex` fit by choosing columns, `constraint_private_lp` solves a linear program,
`PrivateFTRL` plays online, and the published programs and formulas stand next to them. The rest of
the package does not import this one: fits enter it by `ModelRecord` and `FitKind`.
"""
