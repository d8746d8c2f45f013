"""Experiments on series of numbers in time."""
