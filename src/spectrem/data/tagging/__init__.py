"""Tagged text: corpora, dictionaries of tags and tag sets, with their readers and writers."""
