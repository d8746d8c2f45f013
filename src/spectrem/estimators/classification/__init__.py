"""Maximum-entropy classifiers under constraints: `spectrem.MaxEntClassifier`."""
