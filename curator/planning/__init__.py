"""Choice of a protocol from public facts alone: sizes and budgets, never a row."""
