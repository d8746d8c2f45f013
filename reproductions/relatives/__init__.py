"""Experiments on relatives of posterior regularisation."""
