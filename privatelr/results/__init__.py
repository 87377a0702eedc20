"""Reading a release: fits, summaries, tables; nothing private is computed here."""
