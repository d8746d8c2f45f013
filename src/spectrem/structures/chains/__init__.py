"""Chains of labels: of first and second order, with scores on edges, and with scores shared by equal tokens."""
