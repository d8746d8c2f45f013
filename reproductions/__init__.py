"""Experiments of the papers repeated: each sets the published numbers beside ours and draws its figure.

An experiment is a module with two names: ``run``, which returns a `reproductions.report.Report`, and ``QUICK``, the
settings of ``run`` for a small run. Its docstring ends with a list of what differs from the paper, which the report
prints with what depends on the data. ``python -m reproductions`` lists them.
"""
