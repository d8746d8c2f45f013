"""Steps and projections of the solvers that move the multipliers of constraints."""
