"""Learning with latent structure under constraints on posterior expectations."""

__version__ = "0.1.0"
