"""Rows over a corpus, whose duals and programs are evaluated by sums over shards."""
