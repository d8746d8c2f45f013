"""Compiled steps and projections of the solvers for the multipliers of constraints."""
