"""Tagged text for the tagging experiments: the Penn sample with its dictionaries, and the Portuguese Bosque."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np

from spectrem.data import TaggedCorpus, read_tag_dictionary, read_tagged
from spectrem.exceptions import InvalidInputError

PENN = Path("tag", "wsj_sample.pos.gz")
DICTIONARY = Path("tag", "tagdict_sample_conll2000_ewt3.tsv.gz")
BOSQUE = tuple(Path("ud", f"pt_bosque-ud-{part}.tsv.gz") for part in ("train", "dev", "test"))
_BESIDE = Path("..", "shared", "data")


def find_tagged(data: str | os.PathLike[str] | None = None, *, needs: tuple[Path, ...] = (PENN, DICTIONARY)) -> Path:
    """The folder that holds ``tag`` and ``ud``.

    Parameters
    ----------
    data : path, optional
        By default what the environment variable SPECTREM_DATA names, else ``../shared/data``.
    needs : tuple of Path
        Files that must be there, below the folder.

    Raises
    ------
    InvalidInputError
        If one is not there; the message names it.
    """
    named = data or os.environ.get("SPECTREM_DATA")
    root = Path(named or _BESIDE)
    missing = [str(path) for path in needs if not (root / path).is_file()]
    if missing:
        looked = f"{root} lacks {', '.join(missing)}" if named else f"none was given, and {root} has none"
        raise InvalidInputError(
            f"data must be the folder of the tagged corpora ({', '.join(map(str, needs))}): {looked}; pass --data or "
            "set SPECTREM_DATA"
        )
    return root


def read_penn(root: Path, n_tokens: int | None = None) -> TaggedCorpus:
    """The Penn sample with its 45 tags: all of it, or its first tokens (see `first_tokens`)."""
    corpus = read_tagged(root / PENN, format="slash")
    return corpus if n_tokens is None else first_tokens(corpus, n_tokens)


def read_penn_dictionary(root: Path) -> dict[str, tuple[str, ...]]:
    """The tags of each word of the sample; as ambiguous as the whole treebank makes them.

    54 % of the sample's tokens are ambiguous under it, as in [SmithEisner2004] table 1 (of 82.04 % right, 66.61 % of
    the ambiguous ones).
    """
    return read_tag_dictionary(root / DICTIONARY)


def read_bosque(root: Path, n_tokens: int | None = None) -> TaggedCorpus:
    """The Portuguese Bosque with its 17 coarse tags: train, dev and test, or the first tokens of them."""
    parts = [read_tagged(root / path, format="columns") for path in BOSQUE]
    corpus = TaggedCorpus(
        [sentence for part in parts for sentence in part.words], [sentence for part in parts for sentence in part.tags]
    )
    return corpus if n_tokens is None else first_tokens(corpus, n_tokens)


def first_tokens(corpus: TaggedCorpus, n_tokens: int) -> TaggedCorpus:
    """Exactly so many tokens from the start; the last sentence is cut where need be.

    Raises
    ------
    InvalidInputError
        If the corpus has fewer, or ``n_tokens`` is below 1.
    """
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
    return _take(corpus, np.flatnonzero(~drawn).tolist()), _take(corpus, np.flatnonzero(drawn).tolist())


def replace_rare(corpus: TaggedCorpus, *, min_count: int = 2, unknown: str = "unk") -> TaggedCorpus:
    """The corpus with every word that occurs less than ``min_count`` times replaced by one token."""
    counts = Counter(word for sentence in corpus.words for word in sentence)
    words = [[word if counts[word] >= min_count else unknown for word in sentence] for sentence in corpus.words]
    return TaggedCorpus(words, corpus.tags)


def _take(corpus: TaggedCorpus, sentences: list[int]) -> TaggedCorpus:
    return TaggedCorpus([corpus.words[n] for n in sentences], [corpus.tags[n] for n in sentences])
