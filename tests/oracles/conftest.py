"""Makes the oracles that several sets share importable."""
