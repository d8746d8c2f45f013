"""Commands on sentences of tagged and plain text."""
