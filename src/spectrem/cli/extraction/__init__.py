"""`spectrem extract`."""
