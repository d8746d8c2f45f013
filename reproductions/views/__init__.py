"""Experiments with several views of the same data."""
