"""A BiLSTM-CRF for the chunks of CoNLL-2000, a tenth of it with labels, and what is known of the rest; see README.md.

Runs in an environment with PyTorch. Weights at the start, labelled batches and the number of labelled updates depend on
the seed alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import write_readme
from scipy.stats import ttest_rel
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from spectrem import E, part
from spectrem.data import read_tagged
from spectrem.metrics import chunk_scores
from spectrem.torch import CRF, PosteriorRegularisation, bio

LABELS, VALID, SHARES, POS = "labels", "and valid moves", "and shares", "and shares by part of speech"
CONDITIONS = (LABELS, VALID, SHARES, POS)
LEAST = 30
"""How often a tag must occur among labelled words for its share to be known; parts of speech, five times as often."""
WEIGHT, BAND = 2.0, 0.1
"""Of the loss of constraints, in every second update; and how far shares may be from those of labelled words, relative
to these."""
BATCH, UNLABELLED = 8, 32


class Sentence(NamedTuple):
    words: list[str]
    pos: list[str]
    tags: list[str]


def read(data: Path, name: str) -> list[Sentence]:
    """Sentences of CoNLL-2000 of a part, train or test."""
    path = data / "chunk" / f"conll2000-{name}.txt.gz"
    pos, tags = (read_tagged(path, "columns", columns=(0, column)) for column in (1, 2))
    return [Sentence(*map(list, each)) for each in zip(pos.words, pos.tags, tags.tags, strict=True)]


@cache
def shape_of(word: str) -> str:
    """Kinds of letters, of which the third in a row and later ones are left out."""
    shape = ""
    for c in word:
        mark = "X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c
        shape += mark if shape[-2:] != 2 * mark else ""
    return shape


class Encoding:
    """Numbers of words, suffixes, shapes and tags, from labelled sentences; 0 is what these lack."""

    def __init__(self, labelled: Sequence[Sentence]) -> None:
        columns = zip(*(row for sentence in labelled for row in self._rows(sentence)), strict=True)
        self.values = [{value: k + 1 for k, value in enumerate(sorted(set(column)))} for column in columns]
        self.tags = sorted({tag for sentence in labelled for tag in sentence.tags})

    def features(self, sentence: Sentence) -> np.ndarray:
        """Shape (n_tokens, 3)."""
        rows = self._rows(sentence)
        return np.array([[known.get(v, 0) for known, v in zip(self.values, row, strict=True)] for row in rows])

    @staticmethod
    def _rows(sentence: Sentence) -> list[tuple[str, str, str]]:
        return [(word.lower(), word[-3:].lower(), shape_of(word)) for word in sentence.words]


class Tagger(nn.Module):
    """A bidirectional LSTM over embeddings of words, suffixes and shapes, and a CRF."""

    def __init__(self, encoding: Encoding, valid: bool) -> None:
        super().__init__()
        sizes = zip(encoding.values, (64, 32, 16), strict=True)
        self.embed = nn.ModuleList(nn.Embedding(len(values) + 1, size) for values, size in sizes)
        self.lstm = nn.LSTM(112, 64, bidirectional=True, batch_first=True)
        self.emit, self.drop = nn.Linear(128, len(encoding.tags)), nn.Dropout(0.4)
        self.crf = CRF(len(encoding.tags), batch_first=True, allowed=bio(encoding.tags) if valid else None)

    def forward(self, features: Sequence[np.ndarray]) -> Any:
        """The distribution of the tags of a batch."""
        lengths = torch.tensor([len(one) for one in features])
        x = pad_sequence([torch.from_numpy(one) for one in features], batch_first=True)
        x = self.drop(torch.cat([embed(x[..., k]) for k, embed in enumerate(self.embed)], dim=2))
        packed, _ = self.lstm(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        hidden, _ = pad_packed_sequence(packed, batch_first=True)
        return self.crf.distribution(self.emit(self.drop(hidden)), torch.arange(hidden.shape[1]) < lengths[:, None])


def constraints_of(condition: str, labelled: Sequence[Sentence], tags: Sequence[str]) -> list[Any]:
    """A noun phrase in every sentence, and shares of tags as bands: of all words, and by part of speech.

    With parts of speech, also of words that no labelled sentence has: of these, those that occur once tell the shares.
    """
    number = {name: k for k, name in enumerate(tags)}
    rows = [row for each in labelled for row in zip(*each, strict=True)]
    times, n_pos = Counter(word.lower() for word, _, _ in rows), Counter(pos for _, pos, _ in rows)
    groups: dict[str, tuple[Any, list[str]]] = {"all": (part("token") >= 0, [name for _, _, name in rows])}
    if condition == POS:
        groups["unseen"] = (part("unseen"), [name for word, _, name in rows if times[word.lower()] == 1])
        for one in (pos for pos, n in n_pos.items() if n >= 5 * LEAST):
            groups[one] = (part("pos") == one, [name for _, pos, name in rows if pos == one])
    constraints = [(E[part("tag") == number["B-NP"]] >= 1).per("sentence").named("a noun phrase")]
    for group, (which, names) in groups.items():
        for name, n in Counter(names).items():
            if n >= LEAST:
                expected, share = E[(part("tag") == number[name]) & which], n / len(names)
                least, most = share * (1 - BAND), min(share * (1 + BAND), 1.0)
                constraints.append((expected >= least * E.count(which)).named(f"least {name} {group}"))
                constraints.append((expected <= most * E.count(which)).named(f"most {name} {group}"))
    return constraints


def batches(n: int, size: int, seed: int) -> Iterator[np.ndarray]:
    """Numbers of sentences without end, in a new order when they are used up."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(n)
        yield from (order[k : k + size] for k in range(0, n - size + 1, size))


def train(
    condition: str, labelled: Sequence[Sentence], others: Sequence[Sentence], seed: int, epochs: int, warm_up: int
) -> tuple[Tagger, Encoding]:
    """Train on labelled sentences, and behind so many epochs on constraints on the others."""
    torch.manual_seed(seed)
    encoding = Encoding(labelled)
    tagger = Tagger(encoding, condition != LABELS)
    optimiser = torch.optim.Adam(tagger.parameters(), lr=3e-3)
    features = [encoding.features(each) for each in labelled]
    gold = [torch.tensor([encoding.tags.index(tag) for tag in each.tags]) for each in labelled]
    knowledge = None
    if condition in (SHARES, POS):
        constraints = constraints_of(condition, labelled, encoding.tags)
        knowledge = PosteriorRegularisation(constraints, n_rows=len(others), tol=1e-4)
        free, drawn = [encoding.features(each) for each in others], batches(len(others), UNLABELLED, seed)
    n_batches, rng = len(labelled) // BATCH, np.random.default_rng(seed)
    for step, rows in enumerate(islice(batches(len(labelled), BATCH, seed), epochs * n_batches)):
        tagger.train()
        hidden = [rng.random((len(features[k]), 1)) < 0.1 for k in rows]  # words, so that 0 is learnt
        chains = tagger([features[k] * np.where(out, [0, 1, 1], 1) for k, out in zip(rows, hidden, strict=True)])
        loss = -chains.log_prob(pad_sequence([gold[k] for k in rows], batch_first=True)).mean()
        if knowledge is not None and step >= warm_up * n_batches and step % 2 == 0:
            batch = next(drawn)
            columns = {
                "unseen": np.concatenate([free[k][:, 0] == 0 for k in batch]),
                "pos": list(chain.from_iterable(others[k].pos for k in batch)),
            }
            loss = loss + WEIGHT * knowledge(tagger.eval()([free[k] for k in batch]), columns) / UNLABELLED
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(tagger.parameters(), 5.0)
        optimiser.step()
    return tagger.eval(), encoding


def predict(tagger: Tagger, encoding: Encoding, sentences: Sequence[Sentence]) -> tuple[list[list[str]], np.ndarray]:
    """The best tags, and how often each tag is expected, shape (n_tags,)."""
    best, expected = [], np.zeros(len(encoding.tags))
    with torch.no_grad():
        for k in range(0, len(sentences), 64):
            chains = tagger([encoding.features(each) for each in sentences[k : k + 64]])
            best += [[encoding.tags[tag] for tag in row if tag >= 0] for row in chains.mode.tolist()]
            expected += chains.marginals.sum(dim=(0, 1)).numpy()
    return best, expected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that holds chunk/conll2000-*.txt.gz")
    parser.add_argument("--labelled", type=int, default=893, help="sentences with labels")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=3, help="epochs on labels alone")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sentences, test = read(options.data, "train"), read(options.data, "test")
    f1: dict[str, list[float]] = {name: [] for name in CONDITIONS}
    seconds: dict[str, list[float]] = {name: [] for name in CONDITIONS}
    for seed in range(options.seeds):
        order = np.random.default_rng(seed).permutation(len(sentences))
        labelled, others = ([sentences[k] for k in half] for half in np.split(order, [options.labelled]))
        for name in CONDITIONS:
            begin = time.process_time()
            tagger, encoding = train(name, labelled, others, seed, options.epochs, options.warm_up)
            seconds[name].append(time.process_time() - begin)
            f1[name].append(100 * chunk_scores(predict(tagger, encoding, test)[0], [each.tags for each in test]).f1)
            print(seed, name, f"{f1[name][-1]:.2f}", file=sys.stderr, flush=True)
    lines = [
        f"{options.labelled} sentences with labels, {len(sentences) - options.labelled} without; {options.epochs} "
        f"epochs, PyTorch {torch.__version__}, {time.strftime('%Y-%m-%d')}; F1 of chunks of the test set by seed, "
        "paired t-tests against valid moves, processor seconds.",
        "",
        "| learnt from | F1 by seed | mean | gain | p | s |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for name in CONDITIONS:
        gain = np.subtract(f1[name], f1[VALID])
        p = "" if name == VALID else f"{ttest_rel(f1[name], f1[VALID]).pvalue:.2g}"
        each = " ".join(f"{value:.2f}" for value in f1[name])
        lines.append(
            f"| {name} | {each} | {np.mean(f1[name]):.2f} | {gain.mean():+.2f} | {p} | {np.mean(seconds[name]):.0f} |"
        )
    print("\n".join(lines))
    if options.write:
        write_readme("bilstm_crf", "\n".join(lines))


if __name__ == "__main__":
    main()
