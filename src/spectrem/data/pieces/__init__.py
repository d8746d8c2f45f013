"""Texts that are read in pieces, for those that do not fit into memory."""
