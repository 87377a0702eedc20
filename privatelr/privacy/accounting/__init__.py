"""What several releases cost together: composition, filters, and the ledger."""

from privatelr.privacy.accounting.agreement import implied, in_agreement, require_agreement
from privatelr.privacy.accounting.composition_bounds import (
    Entry,
    composition,
    delta_by_losses,
    delta_of,
    epsilon_by_losses,
    epsilon_by_renyi,
    epsilon_by_sum,
    epsilon_of,
    fits,
)
from privatelr.privacy.accounting.filters import kept_delta
from privatelr.privacy.accounting.ledger import (
    Account,
    Ledger,
    PartAccount,
    account_with,
    active_ledger,
)
from privatelr.privacy.accounting.statement import (
    entry_from_json,
    entry_to_json,
    is_within,
    price,
    rounded_down,
    share,
)
from privatelr.privacy.conversions import join, split
