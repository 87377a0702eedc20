"""The command ``privatelr``: its subcommands, each a function whose parameters are its options.

A module of commands is imported when one of them is called.
"""

from __future__ import annotations

import io
import shutil
import textwrap
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from cyclopts import App, CycloptsError, Parameter

from privatelr import __version__
from privatelr.cli import outcomes
from privatelr.cli.outcomes import DONE, STATUSES, STDIN, InputError
from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

    from privatelr.cli import options, program_commands
else:
    options = lazy_import("privatelr.cli.options")
    program_commands = lazy_import("privatelr.cli.program_commands")

_TEXT = """\
Fit differentially private logistic regressions and linear SVMs from a formula.

For example:
  privatelr demo
  privatelr schema init data.csv --out study.toml
  privatelr fit data.csv "y ~ age + smoker" --bounds age=18:90 \\
      --levels smoker=no,yes --out model.json
  privatelr predict model.json new.csv
  privatelr compare model.json other.json

privatelr COMMAND --help tells about a command."""
COMMANDS = {
    "demo": ("model_commands:demo", "Fit iris with its public bounds at eps=1."),
    "plan": ("plan_command:plan", "Plan a study: noise, standard errors and widths, without data."),
    "schema init": ("answer_commands:init", "Write a template of a schema file."),
    "bounds": ("answer_commands:bounds", "Suggest bounds by private quantiles."),
    "levels": ("answer_commands:levels", "Release the frequent levels of a column."),
    "check": ("model_commands:check", "Count, locally and not privately, what a fit would use."),
    "fit": ("model_commands:fit", "Fit a private model to a table."),
    "predict": ("model_commands:predict", "Predict the records of a table by a saved model."),
    "card": ("model_commands:card", "Print the privacy card of a saved model."),
    "roc": ("answer_commands:roc", "Release a ROC curve of a saved model on a table."),
    "choose": ("answer_commands:choose", "Choose one of several saved models privately."),
    "compare": ("answer_commands:compare", "Show saved models side by side."),
    "ledger create": ("ledger_commands:create", "Open an account with a budget, in a new file."),
    "ledger show": ("ledger_commands:show", "Show what is spent, by whom, and what is left."),
    "ledger entries": ("ledger_commands:entries", "List all charges, with the saved releases."),
    "ledger check": ("ledger_commands:check", "Check every row, a noted head and saved models."),
    "ledger export": ("ledger_commands:export", "Print all rows with their hashes as JSON."),
    "lrsimple": ("program_commands:lrsimple", "Run the published program for logistic regression."),
    "svmsimple": ("program_commands:svmsimple", "Run the published program for the linear SVM."),
    "audit": ("audit_command:audit", "Try to break every mechanism."),
}
"""The function behind each command, and its line in the list of commands."""
_GROUPS = {
    "schema": "Write schema files.",
    "ledger": """\
Keep one account of everything that is released about a data set, in a file that every notebook,
process and command charges before it reads the data.

PRIVATELR_LEDGER=FILE names a ledger for a whole shell or notebook: no private release escapes it
then. Charges are never taken back. Keep the file on a disk of one machine, because locks over a
network are not to be trusted.

For example:
  privatelr ledger create clinic.ledger --eps 3 --delta 1e-6 --dataset "clinic 2026"
  privatelr fit data.csv "y ~ age" --bounds age=18:90 --ledger clinic.ledger
  privatelr ledger show clinic.ledger""",
}
"""The help text of each command that has commands of its own."""


class _HelpPage:
    """Writes a help page as plain text of at most 79 characters a line."""

    def _fill(self, text: str, indent: str = "") -> str:
        """Fill paragraphs, but leave lines that are indented, and the line above them."""
        width = min(shutil.get_terminal_size().columns, 80) - 1
        lines = textwrap.TextWrapper(width, indent, indent, break_on_hyphens=False)
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(one if "\n  " in one else lines.fill(one) for one in paragraphs)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: object) -> None:
        """Write how the command is called."""
        console.out(f"Usage: {str(usage).strip()}\n", highlight=False)

    def render_description(self, console: Console, options: ConsoleOptions, text: Any) -> None:
        """Write what the command does."""
        console.out(f"{self._fill(str(text.primary_renderable))}\n", highlight=False)

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Write a list of options or commands."""
        if not panel.entries:
            return
        console.out(f"{panel.title}:", highlight=False)
        for entry in panel.entries:
            about = entry.description
            text = " ".join([str(about.primary_renderable), *map(str, about.texts)])
            choices = f" One of {', '.join(entry.choices)}." if entry.choices else ""
            console.out(f"  {', '.join(entry.display_labels_with_metavar)}", highlight=False)
            console.out(self._fill(f"{' '.join(text.split())}{choices}", " " * 6), highlight=False)
        console.out("")


def make_app(name: str, text: str | None) -> App:
    """An application without commands."""
    return App(
        name=name,
        help=text,
        help_epilogue=STATUSES,
        help_format="plaintext",
        help_formatter=_HelpPage(),
        version=f"{name} {__version__}",
        default_parameter=Parameter(negative="", show_default=False),
        config=lambda *given: options.fill_from_study(*given),
        print_error=False,
        exit_on_error=False,
        verbose=False,
    )


def privatelr_app(words: Sequence[str] = ()) -> App:
    """The application with its commands; the one that `words` name is imported."""
    app = make_app("privatelr", _TEXT)
    groups = {
        name: App(name=name, help=text, sort_key=len(COMMANDS)) for name, text in _GROUPS.items()
    }
    for group in groups.values():
        app.command(group)
    for order, (command, (place, line)) in enumerate(COMMANDS.items()):
        *above, name = command.split()
        parent = groups[above[0]] if above else app
        is_called = [*words[: len(above) + 1]] == command.split()
        text = None if is_called else line  # the text of the called one is its docstring
        parent.command(f"privatelr.cli.{place}", name=name, help=text, sort_key=order)
    app.register_install_completion_command()
    return app


def main(words: Sequence[str]) -> int:
    """Run the command ``privatelr``; return its exit status."""
    return outcomes.run_safely("privatelr", lambda: run(privatelr_app(words), words))


def main_of_program(name: str, words: Sequence[str]) -> int:
    """Run a published program as a command of its own; return its exit status."""

    def action() -> int:
        app = make_app(name, None)
        app.default(getattr(program_commands, name))
        return run(app, words)

    return outcomes.run_safely(name, action)


def run(app: App, words: Sequence[str]) -> int:
    """Run a command by its words; raises `InputError` if they are wrong."""
    named = [STDIN if word == "-" else word for word in words]
    try:
        "".join(named).encode()
    except UnicodeEncodeError:
        raise InputError("the command line takes text in UTF-8, and these bytes are not.") from None
    try:
        command, bound, _ = app.parse_args(named)
    except CycloptsError as error:
        called = " ".join([*app.name, *(error.command_chain or ())])
        raise InputError(f"{str(error).rstrip('.')} (see {called} --help).") from None
    if command.__module__.startswith("cyclopts"):  # it prints a page of help or a version
        with redirect_stdout(io.StringIO()) as page:
            command(*bound.args, **bound.kwargs)
        print(page.getvalue().strip())
        return DONE
    if any(getattr(group, "quiet", False) for group in bound.arguments.values()):
        outcomes.be_quiet()
    return command(*bound.args, **bound.kwargs) or DONE
