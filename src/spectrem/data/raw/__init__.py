"""Text as people write it: found in files of other programs, split into words, and back to where it stood."""
