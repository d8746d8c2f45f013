"""Commands on tables of numbers and of probabilities."""
