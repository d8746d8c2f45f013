"""Parsers for languages without trees, learnt from parsed sentences of another one and word alignments."""

from spectrem.estimators.transfer.transfer import (
    Transfer,
    Trial,
    choose_share,
    conservation,
    conserved_share,
    few_children,
    transfer_parser,
)

__all__ = [
    "Transfer",
    "Trial",
    "choose_share",
    "conservation",
    "conserved_share",
    "few_children",
    "transfer_parser",
]
