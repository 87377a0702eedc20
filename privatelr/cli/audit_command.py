"""The command ``audit``: an attempt to break every mechanism."""

from __future__ import annotations

from privatelr.audit import audit_table, checks, run_audit
from privatelr.cli import outcomes
from privatelr.cli.outcomes import DONE, NOT_WRITTEN, REFUSED, InputError
from privatelr.errors import ArgumentError, PrivateLRError, require_number
from privatelr.plot_style import require_plot
from privatelr.privacy.accounting import of_public_data


def audit(
    *,
    eps: float = 1.0,
    full: bool = False,
    plot: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> int:
    """Try to break every mechanism, and print claims next to what was found.

    The audit searches for the neighbours on which each registered mechanism does worst, computes
    its privacy loss there from densities, and bounds it from sampled outputs. It checks rows of
    random formulas, the noise of every calibration, releases, plays, ledgers, and what other
    libraries say. What raises counts as wrong.

    The exit status is 1 if a claim is wrong, 2 if nothing was audited, and 3 if the audit stopped
    before its end or the picture could not be written.

    For example:
      privatelr audit --plot audit.png

    Parameters
    ----------
    eps
        Epsilon of the claims, from 0.01 to 10; default 1.
    full
        Search longer and sample 20 times: five to ten minutes for each loss.
    plot
        Draw the table: .png, .svg or .pdf.
    json
        Print JSON in place of the table.
    quiet
        Print nothing on standard error but errors.
    """
    if quiet:
        outcomes.be_quiet()
    with of_public_data():
        takes = "a number from 0.01 to 10"
        require_number(ArgumentError, "--eps", eps, takes, at_least=0.01, at_most=10)
        if plot is not None:
            require_plot(plot)  # an error must not come after minutes of work
        rows: list[audit_table.Row] = []
        others: list[checks.Check] = []

        def report(finding: audit_table.Row | checks.Check) -> None:
            if isinstance(finding, audit_table.Row):
                rows.append(finding)
            else:
                others.append(finding)
            outcomes.note("audited", f"{finding.title}: {finding.verdict}")

        status = DONE
        try:
            table = run_audit.run(eps, effort=checks.FULL if full else checks.QUICK, report=report)
        except PrivateLRError as refusal:
            if not (rows or others):
                raise InputError(str(refusal)) from None
            outcomes.say("privatelr", f"the audit stopped: {refusal}")
            table, status = audit_table.Audit(tuple(rows), tuple(others)), NOT_WRITTEN
        print(table.to_json() if json else table)
        if plot is not None:
            try:
                table.plot(plot)
            except (OSError, PrivateLRError) as refusal:
                outcomes.say("privatelr", f"--plot {plot} was not written: {refusal}")
                status = NOT_WRITTEN
        return status if table.ok else REFUSED
