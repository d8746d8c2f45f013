"""Experiments on Gaussian mixtures."""
