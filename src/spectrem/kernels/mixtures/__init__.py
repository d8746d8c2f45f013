"""Densities, moments and posteriors of mixture components, row by row of a table."""
