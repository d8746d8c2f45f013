"""Why constraints cannot hold: a set of rows of which none can be left out, and the words for it."""
