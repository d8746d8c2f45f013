"""
A BiLSTM-CRF and what messages say
==================================

A network that finds what to bring, where and when: six labelled messages, and three sentences of knowledge.

`CRF` is the last layer of the network; `bio` forbids tags that cannot follow each other. Every message names one item
and one place, and two in five name a time. As a loss on messages without labels, `PosteriorRegularisation` measures how
far the network is from that: what holds in each message is solved in the batch, while the share of times has a price
that is kept from batch to batch. PyTorch is optional: without it nothing is run.
"""

import sys
from itertools import chain

import numpy as np

from spectrem import E, part
from spectrem.metrics import chunk_scores
from spectrem.plotting import Line, Panel, draw_panels

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
    sys.exit()

from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence, pad_sequence

from spectrem.torch import CRF, PosteriorRegularisation, bio

LABELLED, OTHERS, TEST, EPOCHS = 6, 200, 300, 10
ITEMS = [
    "bread",
    "lamps",
    "chairs",
    "apples",
    "ropes",
    "paint",
    "nails",
    "soap",
    "books",
    "milk",
    "wool",
    "tiles",
    "coal",
]
PLACES = [
    "station",
    "harbour",
    "market",
    "school",
    "mill",
    "bridge",
    "church",
    "farm",
    "garden",
    "inn",
    "tower",
    "quay",
]
TIMES = ["noon", "friday", "monday morning", "tomorrow", "sunday evening", "midnight", "tonight", "next week"]

torch.manual_seed(0)
torch.set_num_threads(1)
rng = np.random.default_rng(0)


def message():
    """Words and tags of a message."""

    def chunk(kind, words):
        return [(word, f"{'I' if k else 'B'}-{kind}") for k, word in enumerate(words)]

    looks = [str(rng.choice(["old", "new", "big", "small"]))] * int(rng.integers(2))
    item = chunk(
        "ITEM", [*[str(rng.choice(["two", "some", "ten"]))] * int(rng.integers(2)), *looks, str(rng.choice(ITEMS))]
    )
    looks = [str(rng.choice(["old", "new", "big", "small"]))] * int(rng.integers(2))
    place = [(str(rng.choice(["to", "from", "near"])), "O"), *chunk("PLACE", ["the", *looks, str(rng.choice(PLACES))])]
    time = [(str(rng.choice(["before", "after"])), "O"), *chunk("TIME", str(rng.choice(TIMES)).split())]
    parts = [[(str(rng.choice(["bring", "carry", "send", "fetch"])), "O"), *item], place]
    parts = parts if rng.random() < 0.7 else parts[::-1]
    parts.insert(int(rng.integers(3)), time if rng.random() < 0.4 else [])
    return list(zip(*chain.from_iterable(parts), strict=True))


messages = [message() for _ in range(LABELLED + OTHERS + TEST)]
number = {word: k for k, word in enumerate(sorted({word for words, _ in messages for word in words}))}
names = ["O", *(f"{letter}-{kind}" for kind in ("ITEM", "PLACE", "TIME") for letter in "BI")]
words = [torch.tensor([number[word] for word in one]) for one, _ in messages]
gold = [torch.tensor([names.index(tag) for tag in tags]) for _, tags in messages]
labelled, others = np.arange(LABELLED), np.arange(LABELLED, LABELLED + OTHERS)
test = np.arange(LABELLED + OTHERS, len(messages))


class Tagger(torch.nn.Module):
    """Embeddings, a bidirectional LSTM, and a CRF."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(len(number), 32)
        self.lstm = torch.nn.LSTM(32, 24, bidirectional=True, batch_first=True)
        self.emit = torch.nn.Linear(48, len(names))
        self.crf = CRF(len(names), batch_first=True, allowed=bio(names))

    def forward(self, rows):
        """The distribution of the tags of messages."""
        packed, _ = self.lstm(pack_sequence([self.embed(words[k]) for k in rows], enforce_sorted=False))
        hidden, lengths = pad_packed_sequence(packed, batch_first=True)
        return self.crf.distribution(self.emit(hidden), torch.arange(hidden.shape[1]) < lengths[:, None])


def train(knowledge):
    """Train a network; ``knowledge`` is a loss on messages without labels, or None."""
    torch.manual_seed(0)
    tagger, orders = Tagger(), np.random.default_rng(1)
    optimiser = torch.optim.Adam(tagger.parameters(), lr=5e-3)
    tags = pad_sequence([gold[k] for k in labelled], batch_first=True)
    for _ in range(EPOCHS):
        for rows in np.split(orders.permutation(others), OTHERS // 20):
            loss = -tagger(labelled).log_prob(tags).mean()
            if knowledge is not None:
                loss = loss + knowledge(tagger(rows)) / len(rows)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return tagger


tag = part("tag")
item, place, time = (tag == names.index(f"B-{kind}") for kind in ("ITEM", "PLACE", "TIME"))
known = {
    "one item": (E[item] == 1).per("sentence"),
    "one place": (E[place] == 1).per("sentence"),
    "times": E[time] == 0.4 * OTHERS,
}
tagged = {}
print(f"{'':>16}     F1  per message: items, places, times ({TEST} new messages)")
for title, knowledge in (
    ("labels alone", None),
    ("and knowledge", PosteriorRegularisation(known, n_rows=OTHERS)),
):
    tagger = train(knowledge)
    with torch.no_grad():
        tags = tagger(test)
        marginals, mode = tags.marginals, tags.mode.tolist()
    guess = [[names[k] for k in row if k >= 0] for row in mode]
    f1 = chunk_scores(guess, [messages[k][1] for k in test]).f1
    counts = [float(marginals[..., names.index(f"B-{kind}")].sum() / TEST) for kind in ("ITEM", "PLACE", "TIME")]
    print(f"{title:>16}  {f1:.3f}  {', '.join(f'{count:.2f}' for count in counts)}")
    tagged[title] = guess, marginals

# The message that knowledge mends most.
errors = {
    title: np.array([sum(map(str.__ne__, row, messages[k][1])) for row, k in zip(guess, test, strict=True)])
    for title, (guess, _) in tagged.items()
}
shown = int(np.argmax(errors["labels alone"] - errors["and knowledge"]))
text, truth = messages[test[shown]]
for title, row in (
    ("message", text),
    *((title, guess[shown]) for title, (guess, _) in tagged.items()),
    ("gold", truth),
):
    print(f"{title:>16}  {' '.join(f'{cell:<8}' for cell in row)}".rstrip())

# %%
# How probable it is that each word of this message belongs to an item, a place or a time.
panels = []
for title, (_, marginals) in tagged.items():
    lines = []
    for k, kind in enumerate(("ITEM", "PLACE", "TIME")):
        inside = marginals[shown, : len(text), [names.index(f"B-{kind}"), names.index(f"I-{kind}")]].sum(dim=1)
        lines.append(Line(kind.lower(), range(len(text)), inside.tolist(), colour=k, style=k))
    panels.append(Panel(title, "", "probability", lines, y_limits=(-0.03, 1.03)))
figure = draw_panels(panels, width=8.0)
for axes in figure.axes:
    axes.set_xticks(range(len(text)), text, rotation=40, ha="right")
alt = "Probabilities that words of a message are part of an item, a place or a time, by labels alone and by knowledge"
