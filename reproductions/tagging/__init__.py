"""Experiments on part-of-speech tagging."""
