"""Every family of structures, listed by hand: parts with their columns, and all structures of small instances.

Nothing here comes from the library but the classes that are under test; orders of parts are those of their docstrings.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from spectrem import structures as library

MISSING = None  # what a column has where it does not apply
NULL = -1


class Member(NamedTuple):
    """A structure: the numbers of its parts, how often it uses every entry of each factor, and what decoding calls it."""

    taken: object
    counts: tuple = ()
    form: tuple | None = None


@dataclass
class Listed:
    """One instance: its parts (a dictionary of columns each), the choice of each, and its structures."""

    parts: list = field(default_factory=list)
    choices: list = field(default_factory=list)
    structures: list = field(default_factory=list)


@dataclass
class Batch:
    """Instances side by side, in the library's order of parts.

    ``parts`` hold their columns, the instance's among them; ``identity`` names a part whatever batch it lies in.
    """

    structure: object
    parts: list
    owner: np.ndarray
    choice: np.ndarray
    identity: list
    structures: list  # of every instance


class Family:
    """How instances of a kind are drawn (``shape``), listed, and made into a structure of the library."""

    instance_name = "sentence"
    factor_shapes = ()
    labels = ()  # columns that tell the parts of a choice apart
    keys = ()  # columns to group by, besides those of the user

    def __init__(self, rng):
        self.rng = rng

    def shapes(self, n):
        return [self.shape() for _ in range(n)]

    def batch(self, shapes, numbers=None):
        """The batch of some shapes; ``numbers`` are theirs in the whole corpus."""
        numbers = list(range(len(shapes))) if numbers is None else numbers
        return join([self.list(shape) for shape in shapes], numbers, self.make(shapes), self.instance_name)


def join(listed, numbers, structure, instance_name):
    parts, owner, identity, choice, structures, start = [], [], [], [], [], 0
    chosen = 0
    for i, one in enumerate(listed):
        parts += [{instance_name: i} | part for part in one.parts]
        owner += [i] * len(one.parts)
        identity += [(numbers[i], k) for k in range(len(one.parts))]
        codes = {c: chosen + k for k, c in enumerate(dict.fromkeys(one.choices))}
        choice += [codes[c] for c in one.choices]
        chosen += len(codes)
        structures.append([own._replace(taken=np.array(own.taken, int) + start) for own in one.structures])
        start += len(one.parts)
    occurrences = {}
    for part in parts:
        if part.get("occurrence", MISSING) is not MISSING:
            key = (part[instance_name], part["occurrence"])
            part["occurrence"] = occurrences.setdefault(key, len(occurrences))
    return Batch(structure, parts, np.array(owner, int), np.array(choice, int), identity, structures)


class Labels(Family):
    instance_name, labels, keys = "instance", ("label",), ("label",)

    def shape(self):
        return int(self.rng.integers(1, 5))

    def list(self, size):
        return Listed([{"label": k} for k in range(size)], [0] * size, [Member([k], (), (k,)) for k in range(size)])

    def make(self, shapes):
        return library.Categorical(shapes)


class Chains(Family):
    labels, keys = ("tag",), ("tag", "token", "occurrence")

    def __init__(self, rng, k=None):
        super().__init__(rng)
        self.k = int(rng.integers(1, 4)) if k is None else k
        self.factor_shapes = ((self.k, self.k),)

    def shape(self):
        return int(self.rng.integers(1, 5 if self.k < 3 else 4))

    def list(self, n):
        parts = [{"token": t, "occurrence": t, "tag": k} for t in range(n) for k in range(self.k)]
        structures = []
        for tags in itertools.product(range(self.k), repeat=n):
            structures.append(Member([t * self.k + tag for t, tag in enumerate(tags)], self.count(tags), tags))
        return Listed(parts, [part["token"] for part in parts], structures)

    def count(self, tags):
        pairs = np.zeros((self.k, self.k))
        for a, b in itertools.pairwise(tags):
            pairs[a, b] += 1
        return (pairs,)

    def make(self, shapes):
        return library.Chain(shapes, self.k)


class Chains2(Chains):
    def __init__(self, rng):
        super().__init__(rng)
        self.factor_shapes = ((self.k,) * 2, (self.k,) * 3)

    def count(self, tags):
        first, triples = np.zeros((self.k,) * 2), np.zeros((self.k,) * 3)
        if len(tags) > 1:
            first[tags[:2]] += 1
        for k in range(len(tags) - 2):
            triples[tags[k : k + 3]] += 1
        return first, triples

    def make(self, shapes):
        return library.Chain2(shapes, self.k)


class EdgeChains(Chains):
    labels, keys = ("tag", "previous"), ("tag", "previous", "token")

    def list(self, n):
        parts = [{"token": 0, "occurrence": 0, "tag": k, "previous": MISSING} for k in range(self.k)]
        for t, before, k in itertools.product(range(1, n), range(self.k), range(self.k)):
            parts.append({"token": t, "occurrence": t, "tag": k, "previous": before})
        structures = []
        for tags in itertools.product(range(self.k), repeat=n):
            places = [self.k + (t * self.k + a) * self.k + b for t, (a, b) in enumerate(itertools.pairwise(tags))]
            structures.append(Member([tags[0], *places], self.count(tags), tags))
        return Listed(parts, [part["token"] for part in parts], structures)

    def make(self, shapes):
        return library.EdgeChain(shapes, self.k)


class Alignments(Family):
    labels, keys = ("source",), ("source", "target", "state")

    def __init__(self, rng, reverse=False, jumps=None, most=3):
        super().__init__(rng)
        self.reverse, self.most = reverse, most
        self.width = rng.choice([None, 1, 2]) if jumps is None else jumps or None
        if self.width is not None:
            self.factor_shapes = ((2 * self.width + 1,), (most + 1, most + 1), (self.width + 1,))

    def shapes(self, n):
        # the factor of departures is as large as the longest source, which stands in every batch: the first
        return [(self.most, int(self.rng.integers(1, 4)))] + [self.shape() for _ in range(n - 1)]

    def shape(self):
        return int(self.rng.integers(0, self.most + 1)), int(self.rng.integers(1, 4))

    def list(self, shape):
        chosen_from, n = shape
        side, other = ("target", "source") if self.reverse else ("source", "target")
        direction = "backward" if self.reverse else "forward"
        states = [*range(chosen_from), NULL]
        parts = [{side: i, other: j, "state": i, "direction": direction} for j in range(n) for i in states]
        structures = []
        for links in itertools.product(states, repeat=n):
            taken = [j * (chosen_from + 1) + (chosen_from if i == NULL else i) for j, i in enumerate(links)]
            structures.append(Member(taken, self.count(chosen_from, links), links))
        return Listed(parts, [part[other] for part in parts], structures)

    def count(self, n_source, links):
        if self.width is None:
            return ()
        jump, departure, end = (np.zeros(shape) for shape in self.factor_shapes)
        before = -1
        for i in links:
            if i != NULL:
                jump[np.clip(i - before, -self.width, self.width) + self.width] += 1
                departure[n_source, before + 1] += 1
                before = i
        if links:
            end[min(n_source - 1 - before, self.width)] += 1
        return jump, departure, end

    def make(self, shapes):
        source, target = [a for a, _ in shapes], [b for _, b in shapes]
        return library.Alignment(source, target, max_jump=self.width, reverse=self.reverse)


class Brackets(Family):
    labels, keys = ("constituent",), ("start", "end", "span_length", "constituent")

    def shape(self):
        return int(self.rng.integers(1, 6))

    def list(self, n):
        spans = [(a, b) for a in range(n) for b in range(a + 1, n + 1)]
        parts = [
            {"start": a, "end": b, "span_length": b - a, "constituent": yes} for a, b in spans for yes in (True, False)
        ]
        structures = []
        for tree in self.trees(0, n):
            form = tuple(end for span in sorted(tree) if span[1] - span[0] > 1 for end in span)
            structures.append(Member([2 * k + (span not in tree) for k, span in enumerate(spans)], (), form))
        return Listed(parts, [(part["start"], part["end"]) for part in parts], structures)

    def trees(self, a, b):
        if b - a == 1:
            return [{(a, b)}]
        return [
            {(a, b)} | left | right
            for middle in range(a + 1, b)
            for left in self.trees(a, middle)
            for right in self.trees(middle, b)
        ]

    def make(self, shapes):
        return library.Bracketings(shapes)


def head_tables(n, projective, single_root):
    """Heads of every tree over n words; a word that hangs on the root is its own head here."""
    for heads in itertools.product(range(n), repeat=n):
        roots = [d for d, h in enumerate(heads) if d == h]
        if not roots or (single_root and len(roots) > 1) or not all(climbs(d, heads) for d in range(n)):
            continue
        # the root stands left of all words, so that an arc over a word that hangs on it crosses
        if projective and not all(
            reaches(between, h, heads)
            for d, h in enumerate(heads)
            if d != h
            for between in range(min(d, h) + 1, max(d, h))
        ):
            continue
        yield heads


def heads_of(heads):
    """The same with -1 for the root."""
    return tuple(-1 if d == h else h for d, h in enumerate(heads))


def climbs(word, heads):
    for _ in heads:
        word = heads[word]
    return heads[word] == word


def reaches(word, ancestor, heads):
    for _ in heads:
        if word == ancestor:
            return True
        word = heads[word]
    return word == ancestor


class Arcs(Family):
    labels, keys = ("head",), ("dependent", "head", "direction", "root", "length", "occurrence")
    projective = True

    def __init__(self, rng):
        super().__init__(rng)
        self.single_root = bool(rng.integers(2))

    def shape(self):
        return int(self.rng.choice([1, 2, 3, 4], p=[0.15, 0.3, 0.4, 0.15]))

    def arc(self, d, h):
        root = d == h
        return {
            "dependent": d,
            "occurrence": d,
            "head": MISSING if root else h,
            "root": root,
            "direction": MISSING if root else "left" if d < h else "right",
            "length": MISSING if root else abs(d - h),
        }

    def list(self, n):
        parts = [self.arc(d, h) for d in range(n) for h in range(n)]
        tables = head_tables(n, self.projective, self.single_root)
        structures = [Member([d * n + h for d, h in enumerate(heads)], (), heads_of(heads)) for heads in tables]
        return Listed(parts, [part["dependent"] for part in parts], structures)

    def make(self, shapes):
        return library.ProjectiveTrees(shapes, single_root=self.single_root)


class CrossingArcs(Arcs):
    projective = False

    def make(self, shapes):
        return library.NonProjectiveTrees(shapes, single_root=self.single_root)


class Valence(Arcs):
    keys = (*Arcs.keys, "adjacent", "stop")

    def shape(self):
        return int(self.rng.integers(1, 4))

    def list(self, n):
        parts, choices = [], []
        for d, h, later in itertools.product(range(n), range(n), (False, True)):
            root = d == h
            part = self.arc(d, h) | {"adjacent": not later, "stop": False}
            if root and later:  # never taken
                part = self.arc(d, h) | {"adjacent": False, "stop": False, "root": False}
            parts.append(part)
            choices.append(("arc", d))
        gone = dict.fromkeys(("dependent", "occurrence", "head", "direction", "length"), MISSING)
        for h, side, some in itertools.product(range(n), (0, 1), (False, True)):
            parts.append(gone | {"root": False, "adjacent": False, "stop": True})
            choices.append(("stop", h, side))
        structures = []
        for heads in head_tables(n, True, self.single_root):
            taken = []
            for d, h in enumerate(heads):
                nearer = [e for e in range(min(d, h) + 1, max(d, h)) if heads[e] == h and e != h]
                taken.append((d * n + h) * 2 + bool(nearer))
            for h, side in itertools.product(range(n), (0, 1)):
                below = [d for d in (range(h) if side == 0 else range(h + 1, n)) if heads[d] == h]
                taken.append(2 * n * n + (h * 2 + side) * 2 + bool(below))
            structures.append(Member(taken, (), heads_of(heads)))
        return Listed(parts, choices, structures)

    def make(self, shapes):
        return library.ValenceTrees(shapes, single_root=self.single_root)


class Products(Family):
    """Two members over the same instances, of which one may lie in parts of them (``owners``)."""

    keys = ()

    def __init__(self, rng):
        super().__init__(rng)
        self.kind = str(rng.choice(["directions", "labels", "parts"]))
        self.name = "direction" if self.kind == "directions" else "view"
        self.instance_name = "sentence" if self.kind == "directions" else "instance"
        if self.kind == "directions":
            width = int(rng.choice([0, 1]))
            self.one = Alignments(rng, jumps=width, most=2)
            self.other = Alignments(rng, reverse=True, jumps=width, most=2)
            self.keys = ("source", "target", "direction", "state")
            self.names = ("forward", "backward")
        else:
            self.one, self.other = Labels(rng), Labels(rng)
            self.names = ("a", "b")
            self.keys = ("a_label", "b_label", "view") + (("b",) if self.kind == "parts" else ())
        self.factor_shapes = (*self.one.factor_shapes, *self.other.factor_shapes)

    def shapes(self, n):
        if self.kind == "directions":
            return [(int(a), int(b)) for a, b in [(2, 2), *self.rng.integers(1, 3, (n - 1, 2)).tolist()]][:n]
        sizes = [int(self.rng.integers(1, 4)) for _ in range(n)]
        inner = [[int(self.rng.integers(1, 4)) for _ in range(int(self.rng.integers(0, 3)))] for _ in range(n)]
        return list(zip(sizes, inner if self.kind == "parts" else [[k[0] if k else 2] for k in inner], strict=True))

    def batch(self, shapes, numbers=None):
        numbers = list(range(len(shapes))) if numbers is None else numbers
        columns = sorted({"label"} if self.kind != "directions" else set())
        firsts, seconds = [], []
        for first, second in shapes:
            if self.kind == "directions":
                firsts.append([self.one.list((first, second))])
                seconds.append([self.other.list((second, first))])
            else:
                firsts.append([self.one.list(first)])
                seconds.append([self.other.list(size) for size in second])
        parts, owner, identity, choice, place = [], [], [], [], {}
        for view, members in enumerate((firsts, seconds)):
            for i, listed in enumerate(members):
                for m, one in enumerate(listed):
                    place[view, i, m] = len(parts)
                    for k, (part, c) in enumerate(zip(one.parts, one.choices, strict=True)):
                        own = {("ab"[view] + "_" + name if name in columns else name): v for name, v in part.items()}
                        own |= {self.instance_name: i, self.name: self.names[view]}
                        if self.kind == "parts":
                            own["b"] = m if view else MISSING
                        parts.append(own)
                        owner.append(i)
                        identity.append((numbers[i], view, m, k))
                        choice.append((view, i, m, c))
        codes = {c: k for k, c in enumerate(dict.fromkeys(choice))}
        every = {name for part in parts for name in part} | ({"a_label", "b_label"} if columns else set())
        parts = [{name: part.get(name, MISSING) for name in every} for part in parts]
        structures = []
        for i in range(len(shapes)):
            pools = [[(place[v, i, m], s) for s in one.structures] for v, x in enumerate((firsts, seconds))
                     for m, one in enumerate(x[i])]  # fmt: skip
            mine = []
            for combined in itertools.product(*pools):
                taken = np.concatenate([np.array(own.taken, int) + start for start, own in combined])
                counts = tuple(c for _, own in combined for c in own.counts)
                mine.append(Member(taken, counts))
            structures.append(mine)
        numbered = np.array([codes[c] for c in choice], int)
        return Batch(self.make(shapes), parts, np.array(owner, int), numbered, identity, structures)

    def make(self, shapes):
        if self.kind == "directions":
            pair = {"forward": self.one.make(shapes), "backward": self.other.make([(b, a) for a, b in shapes])}
            return library.Product(pair, name="direction")
        first = library.Categorical([size for size, _ in shapes])
        second = library.Categorical([size for _, sizes in shapes for size in sizes])
        if self.kind == "labels":
            return library.Product({"a": first, "b": second})
        owners = [i for i, (_, sizes) in enumerate(shapes) for _ in sizes]
        return library.Product({"a": first, "b": second}, owners={"b": owners}, n_instances=len(shapes))


FAMILIES = {
    "labels": Labels, "chains": Chains, "second-order chains": Chains2, "chains of edges": EdgeChains,
    "alignments": Alignments, "bracketings": Brackets, "projective trees": Arcs, "non-projective trees": CrossingArcs,
    "trees with valence": Valence, "products": Products,
}  # fmt: skip
