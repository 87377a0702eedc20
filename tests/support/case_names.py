"""Names of parametrized cases that are the same in every process, so that several can share."""

import re


def case_name(value):
    """A case as text without addresses in memory, 50 characters at most."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))[:50]
