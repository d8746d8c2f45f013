"""Corpora in memory, in files and on clusters, behind one protocol."""

from spectrem.corpus.corpus import Corpus, fold
from spectrem.corpus.local import Local, stream
from spectrem.corpus.on_dask import OnDask, connect
from spectrem.corpus.spilled import Spilled

__all__ = ["Corpus", "Local", "OnDask", "Spilled", "connect", "fold", "stream"]
