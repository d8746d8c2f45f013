"""Word alignment: `WordAligner`, and what it declares, reads, decodes and saves."""
