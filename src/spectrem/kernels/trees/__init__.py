"""Passes over trees, and what they share."""
