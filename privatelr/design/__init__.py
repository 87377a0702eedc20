"""A formula, public bounds and a table become rows whose length has a public limit."""
