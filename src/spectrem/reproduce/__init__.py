"""The papers' alignment experiments: each trains, sets the published numbers beside ours and draws the figure.

One module per experiment, each with one function of the same name that returns a `spectrem.reproduce.report.Report`.
`spectrem.reproduce.corpus` reads the data that all of them use. On the command line: ``spectrem reproduce``.
"""
