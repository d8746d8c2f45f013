"""Mixtures of Gaussians: `spectrem.GaussianMixture`."""
