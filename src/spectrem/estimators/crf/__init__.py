"""Conditional random fields: `CRFTagger`, and what it declares, reads, trains, decodes and saves."""
