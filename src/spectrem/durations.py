"""How long the states of a hidden Markov model last: families of distributions, and tables of scores made of them."""

from spectrem.models.durations import Durations, Geometric, Histogram, NegativeBinomial, Poisson, duration_scores

__all__ = ["Durations", "Geometric", "Histogram", "NegativeBinomial", "Poisson", "duration_scores"]
