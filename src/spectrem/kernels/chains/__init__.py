"""Sums and maxima over the paths of chains of first and second order, scaled and in log space."""
