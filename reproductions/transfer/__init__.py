"""Parsers for languages without trees, learnt across bitext ([Ganchev2010] §7)."""
