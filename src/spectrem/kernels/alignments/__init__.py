"""Word alignment: sums and maxima over links, coupled directions, and the counts of words that meet."""
