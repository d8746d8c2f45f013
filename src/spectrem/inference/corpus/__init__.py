"""Rows over a corpus, of which only sums over shards come home."""
