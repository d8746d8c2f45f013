"""Experiments on brackets learned from sentences of tags."""
