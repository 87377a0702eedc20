"""The price of several releases together: composition, filters and the ledger."""

from privatelr.privacy.accounting.agreement import (
    in_agreement,
    joint_guarantee,
    require_agreement,
)
from privatelr.privacy.accounting.composition_bounds import epsilon_of
from privatelr.privacy.accounting.filters import kept_delta
from privatelr.privacy.accounting.ledger import (
    NAMED,
    Account,
    AnyLedger,
    Ledger,
    PartAccount,
    account_with,
    charge,
    charged_if_unread,
    of_public_data,
)
from privatelr.privacy.accounting.ledger_entry import Entry, Receipt, column_of_persons
from privatelr.privacy.accounting.statement import entry_from_json, entry_to_json, is_within, price
from privatelr.privacy.conversions import join, split
