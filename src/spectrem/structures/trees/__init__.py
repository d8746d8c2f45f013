"""Trees over the words of sentences: every word has one head, another word or the root."""
