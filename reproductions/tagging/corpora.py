"""Tagged text for the tagging experiments: the Penn sample with its dictionaries, and the Portuguese Bosque."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from reproductions.places import find_folder
from spectrem.data import TaggedCorpus, read_tag_dictionary, read_tagged
from spectrem.exceptions import InvalidInputError

PENN = "tag/wsj_sample.pos.gz"
DICTIONARY = "tag/tagdict_sample_conll2000_ewt3.tsv.gz"
BOSQUE = tuple(f"ud/pt_bosque-ud-{part}.tsv.gz" for part in ("train", "dev", "test"))


def read_penn(data: Path | None) -> TaggedCorpus:
    """The Penn sample with its 45 tags; ``data`` is the folder that holds ``tag``, see `find_folder`."""
    return read_tagged(find_folder(data, [PENN]) / PENN, format="slash")


def read_penn_dictionary(data: Path | None) -> dict[str, tuple[str, ...]]:
    """The tags of each word of the sample; as ambiguous as the whole treebank makes them.

    54 % of the sample's tokens are ambiguous under it, as in [SmithEisner2004] table 1 (of 82.04 % right, 66.61 % of
    the ambiguous ones).
    """
    return read_tag_dictionary(find_folder(data, [DICTIONARY]) / DICTIONARY)


def read_bosque(data: Path | None) -> TaggedCorpus:
    """The Portuguese Bosque with its 17 coarse tags: train, dev and test; ``data`` is the folder that holds ``ud``."""
    folder = find_folder(data, BOSQUE)
    parts = [read_tagged(folder / path, format="columns") for path in BOSQUE]
    return TaggedCorpus(flat(part.words for part in parts), flat(part.tags for part in parts))


def first_tokens(corpus: TaggedCorpus, n_tokens: int | None) -> TaggedCorpus:
    """Exactly so many tokens from the start, all by default; the last sentence is cut where need be.

    Raises
    ------
    InvalidInputError
        If the corpus has fewer, or ``n_tokens`` is below 1.
    """
    if n_tokens is None:
        return corpus
    ends = np.cumsum([len(sentence) for sentence in corpus.words])
    total = int(ends[-1]) if ends.size else 0
    if not 1 <= n_tokens <= total:
        raise InvalidInputError(
            f"tokens must be between 1 and the {total:,} of the corpus, got {n_tokens:,}; ask for as many as there are"
        )
    last = int(np.searchsorted(ends, n_tokens))
    kept = n_tokens - (int(ends[last - 1]) if last else 0)
    words, tags = ([*side[:last], side[last][:kept]] for side in corpus)
    return TaggedCorpus(words, tags)


def split_at_random(corpus: TaggedCorpus, n_second: int, seed: int) -> tuple[TaggedCorpus, TaggedCorpus]:
    """Part off ``n_second`` sentences drawn without replacement; both parts keep the order of the text.

    Raises
    ------
    InvalidInputError
        If none would be left for the first part.
    """
    n_sentences = len(corpus.words)
    if not 1 <= n_second < n_sentences:
        raise InvalidInputError(
            f"sentences to part off must be between 1 and {n_sentences - 1:,}, got {n_second:,}; leave some to train on"
        )
    drawn = np.zeros(n_sentences, dtype=np.bool_)
    drawn[np.random.default_rng(seed).choice(n_sentences, n_second, replace=False)] = True
    return take(corpus, np.flatnonzero(~drawn).tolist()), take(corpus, np.flatnonzero(drawn).tolist())


def replace_rare(corpus: TaggedCorpus, *, min_count: int = 2, unknown: str = "unk") -> TaggedCorpus:
    """The corpus with every word that occurs less than ``min_count`` times replaced by one token."""
    counts = Counter(flat(corpus.words))
    words = [[word if counts[word] >= min_count else unknown for word in sentence] for sentence in corpus.words]
    return TaggedCorpus(words, corpus.tags)


def take(corpus: TaggedCorpus, sentences: Sequence[int]) -> TaggedCorpus:
    """The sentences of these numbers."""
    return TaggedCorpus([corpus.words[n] for n in sentences], [corpus.tags[n] for n in sentences])


def flat(sentences: Iterable[Iterable[Any]]) -> list[Any]:
    """All tokens in one list."""
    return list(chain.from_iterable(sentences))
