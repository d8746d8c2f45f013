"""What all homes promise, and that a broken one is noticed."""

from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from spectrem.corpus import Local, OnDask, Spilled
from spectrem.exceptions import InvalidInputError
from spectrem.testing import check_corpus


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_in_memory(n_threads):
    check_corpus(lambda shards: Local(shards, n_threads))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_in_files(tmp_path, n_threads):
    check_corpus(lambda shards: Spilled(shards, tmp_path, n_threads))


def test_on_a_cluster(client):
    check_corpus(lambda shards: OnDask(shards, client))


def test_on_a_cluster_in_files(tmp_path, client):
    check_corpus(lambda shards: OnDask(shards, client, tmp_path))


def moments(shard, centre):
    """Products of more rows than a library multiplies on one thread."""
    moved = shard - centre
    return np.concatenate([moved.sum(0), (moved.T @ moved).ravel(), [np.dot(moved[:, 0], moved[:, 1])]])


def whitened(shard, centre, scale):
    return (shard - centre) / scale


def kept(shard, rate):
    """A step that keeps an array beside another one that does not change."""
    rows, prices = shard
    prices = prices + rate * np.tanh(rows @ prices).mean()
    return np.exp(rows @ prices).sum(keepdims=True), (rows, prices)


def paired(shard, own):
    return shard, np.full(shard.shape[1], own)


def learn(corpus):
    """All verbs, as an estimator uses them."""
    whole = corpus.sum(moments, 0.0)
    derived = corpus.derive(whitened, whole[:4] / 60_000, 2.0)
    numbers = [whole, derived.sum(moments, np.full(4, 0.1))]
    posed = derived.derive(paired, each=np.linspace(0, 1, len(corpus)))
    for step in range(20):
        total, posed = posed.advance(kept, 0.3 / (1 + step))
        numbers.append(total)
    numbers += [prices for _, prices in posed.collect(tuple)]
    return np.concatenate(numbers)


def test_the_same_bits_everywhere(tmp_path, client):
    """Many rows per shard, so that linear algebra would use its threads."""
    rng = np.random.default_rng(0)
    shards = np.array_split(rng.normal(size=(60_000, 4)), 5)
    expected = learn(Local(shards))
    assert np.isfinite(expected).all()
    for home in (Local(shards, 2), Spilled(shards, tmp_path), Spilled(shards, tmp_path, 2), OnDask(shards, client)):
        assert np.array_equal(learn(home), expected), home


class Changed(Local):
    """A home with one promise broken."""


class Backwards(Changed):
    def collect(self, f, *broadcast, each=None):
        yield from reversed(list(super().collect(f, *broadcast, each=each)))


class LeftFold(Changed):
    def sum(self, f, *broadcast):
        first, *rest = self.collect(f, *broadcast)
        return sum(rest, first)


class Unpacking(Changed):
    """As what travels by way of another format."""

    def collect(self, f, *broadcast, each=None):
        broadcast = [list(value) if isinstance(value, tuple) else value for value in broadcast]
        return super().collect(f, *broadcast, each=each)


class ReadOnly(Changed):
    def derive(self, f, *broadcast, each=None):
        derived = super().derive(f, *broadcast, each=each)
        return replace(derived, shards=[fixed(shard) for shard in derived.shards])


def fixed(shard):
    if isinstance(shard, np.ndarray):
        shard = shard.copy(order="A")
        shard.flags.writeable = False
    return {key: fixed(value) for key, value in shard.items()} if isinstance(shard, dict) else shard


class Forgetful(Changed):
    def advance(self, f, *broadcast):
        return super().advance(f, *broadcast)[0], self


class Reworded(Changed):
    def sum(self, f, *broadcast):
        try:
            return super().sum(f, *broadcast)
        except InvalidInputError as error:
            raise InvalidInputError(str(error)) from None


class OwnLast(Changed):
    def derive(self, f, *broadcast, each=None):
        if each is None:
            return super().derive(f, *broadcast)
        if len(each) != len(self):
            raise InvalidInputError("each")
        return replace(self, shards=[f(shard, *broadcast, own) for shard, own in zip(self.shards, each, strict=True)])


class AnyEach(Changed):
    def derive(self, f, *broadcast, each=None):
        return super().derive(f, *broadcast, each=None if each is None else each[: len(self)])


class NotEach(Changed):
    """Gives all shards the value of the first one."""

    def derive(self, f, *broadcast, each=None):
        return replace(self, shards=Local(self.shards).derive(f, *broadcast, each=each).shards)

    def collect(self, f, *broadcast, each=None):
        return super().collect(f, *broadcast, each=each and [each[0]] * len(each))


class AnyCollected(Changed):
    def derive(self, f, *broadcast, each=None):
        return replace(self, shards=Local(self.shards).derive(f, *broadcast, each=each).shards)

    def collect(self, f, *broadcast, each=None):
        return super().collect(f, *broadcast, each=each and each[: len(self)])


class ManyThreads(Changed):
    def collect(self, f, *broadcast, each=None):
        return super().collect(with_two_threads(f), *broadcast, each=each)


def with_two_threads(f):
    def call(*arguments):
        with threadpool_limits(2, user_api="blas"):
            return f(*arguments)

    return call


class ZeroOfNothing(Changed):
    def sum(self, f, *broadcast):
        return super().sum(f, *broadcast) if len(self) else 0


class InPlace(Changed):
    """Adds into the first shard."""

    def sum(self, f, *broadcast):
        total = super().sum(f, *broadcast)
        if isinstance(self.shards[0], dict) and isinstance(total, np.ndarray):
            self.shards[0]["values"][:] = total
        return total


class Sorted(Changed):
    def part(self, numbers):
        return super().part(sorted(numbers))


class Wrapping(Changed):
    def part(self, numbers):
        return super().part([number % len(self) for number in numbers])


class Whole(Changed):
    """Sums all shards, whichever were asked for."""

    def part(self, numbers):
        found = Whole(super().part(numbers).shards)
        object.__setattr__(found, "whole", self)
        return found

    def sum(self, f, *broadcast):
        return Local.sum(getattr(self, "whole", self), f, *broadcast)


@pytest.mark.parametrize(
    ("home", "promise"),
    [
        (Backwards, "order of the shards"),
        (LeftFold, "neighbours first"),
        (Unpacking, "arrive as they are"),
        (ReadOnly, "writability"),
        (Forgetful, "the shards of 1 steps"),
        (Reworded, "an exception must arrive as it was"),
        (OwnLast, "its own value, before the others"),
        (AnyEach, "each of the wrong length"),
        (NotEach, "its own value in collect"),
        (AnyCollected, "each of the wrong length in collect"),
        (ManyThreads, "one thread while shards"),
        (ZeroOfNothing, "the sum of no shards"),
        (InPlace, "the bits of a sum in that order"),
        (Sorted, "a part must hold its shards in their order"),
        (Wrapping, "a number without a shard"),
        (Whole, "the sum of a part must be that of its shards"),
    ],
)
def test_a_broken_promise_is_named(home, promise):
    with pytest.raises(AssertionError, match=promise):
        check_corpus(home)
