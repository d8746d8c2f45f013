"""Entities and relations, labelled together."""
