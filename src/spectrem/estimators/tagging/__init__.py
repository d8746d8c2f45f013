"""Tagging: `HMMTagger`, and what it declares, reads, starts from, trains, decodes and saves."""
