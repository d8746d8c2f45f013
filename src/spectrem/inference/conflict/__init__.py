"""Why constraints cannot hold: a set of rows that conflict, as small as can be found, and its description."""
