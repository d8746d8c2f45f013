"""Classifiers trained on few labels and on constraints: `spectrem.SelfTrainer`."""
