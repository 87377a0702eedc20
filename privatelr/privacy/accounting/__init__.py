"""What several releases cost together: composition, filters, and the ledger."""
