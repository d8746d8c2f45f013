"""Kernels of binary trees over the spans of a sentence."""
