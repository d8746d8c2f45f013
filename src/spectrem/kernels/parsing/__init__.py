"""Features of arcs, computed on the fly."""
