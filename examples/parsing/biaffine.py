"""
A biaffine parser and parts of trees
====================================

A neural parser from eight whole trees, and from a third of the heads of two hundred other sentences.

A biaffine network scores every pair of words as dependent and head, and `ProjectiveTrees` makes these scores a
distribution over trees. Where a head is not known it is -2, and `log_prob` sums over all trees that agree with those
that are. So parts of trees train the network by the same line as whole ones. PyTorch is optional: without it nothing is
run.
"""

import sys

import numpy as np

from spectrem.datasets import make_treebank
from spectrem.metrics import attachment_scores
from spectrem.plotting import plot_trees

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
    sys.exit()

from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence, pad_sequence

from spectrem.torch import ProjectiveTrees

WHOLE, PARTS, TEST, STEPS, SIZE = 8, 200, 200, 150, 24

torch.manual_seed(0)
torch.set_num_threads(1)
sentences = make_treebank(WHOLE + PARTS + TEST)
number = {word: k for k, word in enumerate(sorted({word for one in sentences for word in one.forms}))}
words = [torch.tensor([number[word] for word in one.forms]) for one in sentences]
gold = [torch.from_numpy(one.heads) for one in sentences]
rng = np.random.default_rng(0)
known = [heads.where(torch.from_numpy(rng.random(len(heads)) < 1 / 3), -2) for heads in gold]


class Parser(torch.nn.Module):
    """Embeddings, a bidirectional LSTM, and a biaffine score of every dependent and head."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(len(number), SIZE)
        self.lstm = torch.nn.LSTM(SIZE, SIZE, bidirectional=True, batch_first=True)
        self.dependent, self.head = (torch.nn.Linear(2 * SIZE, SIZE) for _ in range(2))
        self.root = torch.nn.Parameter(torch.zeros(2 * SIZE))
        self.pair = torch.nn.Parameter(torch.randn(SIZE, SIZE) / SIZE)
        self.single = torch.nn.Linear(SIZE, 1)

    def forward(self, rows):
        """The distribution of the trees of sentences."""
        packed, _ = self.lstm(pack_sequence([self.embed(words[k]) for k in rows], enforce_sorted=False))
        hidden, lengths = pad_packed_sequence(packed, batch_first=True)
        hidden = torch.cat([self.root.expand(len(rows), 1, -1), hidden], dim=1)  # the root is before the first word
        dependent, head = self.dependent(hidden).relu(), self.head(hidden).relu()
        scores = dependent @ self.pair @ head.transpose(1, 2) + self.single(head).transpose(1, 2)
        return ProjectiveTrees.from_rooted(scores, lengths=lengths)


def train(heads, rows):
    """Train a parser on the heads, whole or in part, of some sentences."""
    torch.manual_seed(0)
    parser, order = Parser(), np.random.default_rng(1)
    optimiser = torch.optim.Adam(parser.parameters(), lr=1e-2)
    for _ in range(STEPS):
        batch = order.choice(rows, min(20, len(rows)), replace=False)
        loss = (
            -parser(batch).log_prob(pad_sequence([heads[k] for k in batch], batch_first=True, padding_value=-2)).mean()
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return parser


test = np.arange(WHOLE + PARTS, len(sentences))
truth = [sentences[k].heads for k in test]
trees = {}
for title, heads, rows in (
    ("8 whole trees", gold, np.arange(WHOLE)),
    ("and a third of 200", [*gold[:WHOLE], *known[WHOLE:]], np.arange(WHOLE + PARTS)),
):
    parser = train(heads, rows)
    with torch.no_grad():
        trees[title] = parser(test)
    guess = [row[: len(heads)] for row, heads in zip(trees[title].mode.numpy(), truth, strict=True)]
    scores = attachment_scores(truth, guess)
    print(f"{title:>18}: unlabelled attachment {scores.uas:.3f}, whole trees {scores.exact_match:.2f}")

# %%
# What both think of a new sentence: of those of seven words that in which the first parser is least sure.
entropies = trees["8 whole trees"].entropy().numpy()
shown = max((n for n, heads in enumerate(truth) if len(heads) == 7), key=lambda n: entropies[n])
arcs = {title: each.marginals[shown, :7, :7].numpy() for title, each in trees.items()}
figure = plot_trees(sentences[test[shown]].forms, arcs, truth[shown], tags=sentences[test[shown]].upos)
alt = "Arcs of a sentence by probability, from eight whole trees, and from parts of two hundred more"
