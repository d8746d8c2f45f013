"""Label models: weak votes, knowledge, one answer."""
