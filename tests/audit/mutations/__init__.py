"""Bugs that are planted in the package on purpose, each of which the audit has to see.

An audit that finds nothing means little unless it is known what it would find.
"""

from tests.audit.mutations.of_answers import OF_ANSWERS
from tests.audit.mutations.of_blind_spots import OF_BLIND_SPOTS
from tests.audit.mutations.of_choices import OF_CHOICES
from tests.audit.mutations.of_classes import OF_CLASSES
from tests.audit.mutations.of_ledgers import OF_LEDGERS
from tests.audit.mutations.of_mechanisms import OF_MECHANISMS
from tests.audit.mutations.of_persons import OF_PERSONS
from tests.audit.mutations.of_rows import OF_ROWS
from tests.audit.mutations.of_strata import OF_STRATA

GROUPS = {
    "answers": OF_ANSWERS,
    "blind spots": OF_BLIND_SPOTS,
    "choices": OF_CHOICES,
    "classes": OF_CLASSES,
    "ledgers": OF_LEDGERS,
    "mechanisms": OF_MECHANISMS,
    "persons": OF_PERSONS,
    "rows": OF_ROWS,
    "strata": OF_STRATA,
}
