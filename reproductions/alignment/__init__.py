"""Experiments on word alignment, on the Hansards."""
