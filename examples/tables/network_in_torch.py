"""
A network of PyTorch and known shares
=====================================

A network of PyTorch, trained on few labels and on the share of class 1 among the rows of every shop.

`ConstrainedTargets` takes and gives arrays, whatever makes them: the log-probabilities of a batch go in, soft targets
come out, and the loss is the cross-entropy with these. Every shop has a share of its own, and a price, which is saved
with the network. PyTorch is optional: without it nothing is run.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from spectrem import ConstrainedTargets, E, part
from spectrem.plotting import COLOURS

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
    sys.exit()

N, BATCH, EPOCHS = 1200, 60, 10
SHARES = {"north": 0.2, "south": 0.7}

torch.manual_seed(0)
torch.set_num_threads(1)
rng = np.random.default_rng(0)
shop = rng.choice(list(SHARES), N)
gold = np.array([rng.random() < SHARES[name] for name in shop]).astype(int)
inputs = torch.tensor(rng.normal(size=(N, 10)) + np.eye(10)[0] * (2 * gold[:, None] - 1), dtype=torch.float32)
labelled = np.concatenate([rng.choice(np.flatnonzero(gold == c), 5, replace=False) for c in range(2)])


def train(targets):
    """Train a network; ``targets`` makes soft targets of log-probabilities, or is None."""
    network = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimiser = torch.optim.Adam(network.parameters(), lr=5e-3)
    orders, known = np.random.default_rng(1), torch.tensor(gold[labelled])
    for _ in range(EPOCHS):
        for rows in np.split(orders.permutation(N), N // BATCH):
            loss = torch.nn.functional.cross_entropy(network(inputs[labelled]), known)
            if targets is not None:
                log_p = torch.log_softmax(network(inputs[rows]), dim=1)
                soft = targets.update(log_p.detach(), {"shop": shop[rows]})
                loss = loss - (torch.tensor(soft) * log_p).sum() / BATCH
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network


shares = [
    (E[(part("label") == 1) & (part("shop") == name)] == share * E.count(part("shop") == name)).named(
        f"class 1 in {name}"
    )
    for name, share in SHARES.items()
]
targets = ConstrainedTargets(shares, n_rows=N)
found = {}
print(f"{'':>16}  accuracy  share of class 1 in north and south, known to be {list(SHARES.values())}")
for title, own in (("labels alone", None), ("and known shares", targets)):
    network = train(own)
    with torch.no_grad():
        log_p = torch.log_softmax(network(inputs), dim=1)
    accuracy = np.mean(log_p.argmax(dim=1).numpy() == gold)
    found[title] = np.array([float(log_p.exp()[shop == name, 1].mean()) for name in SHARES])
    print(f"{title:>16}     {accuracy:.3f}  {found[title].round(2)}")

with tempfile.TemporaryDirectory() as folder:  # what is saved is made of numbers, text, lists and mappings
    torch.save({"network": network.state_dict(), "targets": targets.state_dict()}, Path(folder) / "state.pt")
    again = ConstrainedTargets(shares, n_rows=N)
    again.load_state_dict(torch.load(Path(folder) / "state.pt", weights_only=True)["targets"])
for name, price in again.prices_.items():
    print(f"price of {name}: {price[0]:.2f} nats")

# %%
# The shares of class 1 that either network expects, beside those that are known.
figure = Figure((6.0, 3.2), layout="constrained")
axes = figure.subplots()
for k, (name, expected) in enumerate((found | {"known": np.array(list(SHARES.values()))}).items()):
    axes.bar(np.arange(2) + 0.27 * k, 100 * expected, 0.25, color=(COLOURS[1], COLOURS[0], "0.6")[k], label=name)
axes.set_xticks(np.arange(2) + 0.27, list(SHARES))
axes.set(ylabel="share of class 1 in the shop, %")
axes.legend(frameon=False)
alt = "Share of class 1 in two shops, by a network of few labels, by one that knows the shares, and as known"
