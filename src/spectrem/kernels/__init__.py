"""Numba functions, by the family of structure or the method they serve: arrays in, arrays filled, a status out."""
