"""Ways to minimise the dual, one per file."""
