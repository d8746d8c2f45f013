"""Experiments of the papers repeated: each sets the published numbers beside ours and draws its figure.

An experiment is a module with two names: ``run``, which returns a `reproductions.report.Report`, and ``QUICK``, the
settings of ``run`` for a small run. ``python -m reproductions`` lists them.
"""
