"""Structures as distributions in PyTorch."""
