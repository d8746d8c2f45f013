"""Commands on bitext: aligning, and what is done with links."""
