"""Hidden Markov models of series of numbers, counts and categories."""
