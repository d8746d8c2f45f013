"""Experiments on entities and relations."""
