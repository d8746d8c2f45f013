"""Grammars of dependencies learned without trees."""
