"""Scores and expected counts of sparse features."""
