"""Parsers for languages without trees, learnt from parsed sentences of another one and word alignments."""

from spectrem.estimators.transfer.constraints import conservation, few_children
from spectrem.estimators.transfer.share import Trial, choose_share, conserved_share
from spectrem.estimators.transfer.transfer import Transfer, transfer_parser

__all__ = [
    "Transfer",
    "Trial",
    "choose_share",
    "conservation",
    "conserved_share",
    "few_children",
    "transfer_parser",
]
