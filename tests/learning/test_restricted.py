"""Parameters that are too large for a worker: every shard is sent those that it needs."""

import dataclasses
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from mortal import die_once
from toy_models import Tagger, TaggerParams, TaggerStats, join, perturb, random_params, random_shards

from spectrem import E, part
from spectrem.corpus import Local, OnDask
from spectrem.learning import EStep, Stepwise, Stopping, posed_corpus, run_em
from spectrem.testing import check_model

N_SYMBOLS = 12
RNG = np.random.default_rng(8)
PARAMS, SHARDS = random_params(RNG, n_symbols=N_SYMBOLS), random_shards(RNG, 6, n_symbols=N_SYMBOLS)
EACH = (E[part("tag") == 0] >= 0.5).per("sentence")
ONES = (E[part("tag") == 1] >= 0.4 * E.count(...)).named("ones")


@dataclass(frozen=True)
class Narrow(Tagger):
    """A tagger that can do with the emissions of some symbols."""

    n_symbols: int = N_SYMBOLS
    symbols: tuple[int, ...] | None = None  # those that there are emissions of

    def initial_stats(self, params):
        """So that symbols that the first batch lacks stay possible."""
        return TaggerStats(*(5.0 * table for table in params))

    def scores(self, params, shard):
        assert params.emission.shape[1] == self.n_symbols
        return super().scores(params, self._own(shard))

    def gather(self, params, shard, marginals):
        return super().gather(params, self._own(shard), marginals)

    def _own(self, shard):
        return shard if self.symbols is None else shard._replace(tokens=np.searchsorted(self.symbols, shard.tokens))

    @staticmethod
    def needs(shard):
        return tuple(np.unique(shard.tokens).tolist())

    def restrict(self, params, needs):
        return Narrow(self.n_states, len(needs), needs), params._replace(emission=params.emission[:, list(needs)])

    def place(self, stats, needs):
        emission = np.zeros((self.n_symbols, self.n_states)).T  # in memory as `gather` has it, which m_step adds up
        emission[:, list(needs)] = stats.emission
        return TaggerStats(stats.start, stats.transition, emission)


class Distant(Local):
    """Shards in this process that pretend to live in another one; writes down what is sent there."""

    log: list = []  # noqa: RUF012
    is_remote = True

    def collect(self, f, *broadcast, each=None):
        def sent(shard, *arguments):
            Distant.log.append(max(map(widest, arguments), default=0))
            return f(*pickle.loads(pickle.dumps((shard, *arguments))))

        return super().collect(sent, *broadcast, each=each)


def widest(argument):
    """The number of symbols that some parameters in an argument have emissions of."""
    parts = argument if isinstance(argument, tuple) else (argument,)
    return max((len(own.emission[0]) for own in parts if isinstance(own, TaggerParams)), default=0)


@pytest.fixture
def always(monkeypatch):
    """However small the parameters are."""
    monkeypatch.setattr(posed_corpus, "_LARGE", 0)
    Distant.log.clear()


def run(shards, estep=None, schedule=None, n=2, model=None, **options):
    model = model or Narrow()
    return run_em(model, shards, PARAMS, estep, schedule=schedule, stopping=Stopping(n), **options)


def outcome(result):
    records = [dataclasses.replace(record, seconds=0.0) for record in result.history]
    return [table.tobytes() for table in result.params], records


@pytest.mark.usefixtures("process_kept")
def test_a_model_that_says_what_shards_need_passes():
    check_model(Narrow(), PARAMS, SHARDS[:2], np.random.default_rng(4), perturb=perturb, join=join, iterations=2)


class Misplaced(Narrow):
    def place(self, stats, needs):
        placed = super().place(stats, needs)
        return TaggerStats(placed.start, placed.transition, placed.emission[:, ::-1])


def test_statistics_in_the_wrong_place_are_noticed():
    with pytest.raises(AssertionError, match="Misplaced: restrict and place must give the bits of the whole model"):
        check_model(Misplaced(), PARAMS, SHARDS[:2], np.random.default_rng(4), perturb=perturb)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("most_parts", [0, 1 << 23], ids=["structures made anew", "structures kept"])
@pytest.mark.parametrize("schedule", [None, Stepwise(n_batches=4)], ids=["batch", "stepwise"])
@pytest.mark.parametrize("n_shards", [1, 2, 3, 5, 6])
def test_every_shard_is_sent_what_it_needs(monkeypatch, n_shards, schedule, most_parts):
    monkeypatch.setattr(posed_corpus, "_MOST_PARTS", most_parts)
    estep, shards = EStep([EACH]), SHARDS[:n_shards]
    expected = outcome(run(Local(shards), estep, schedule))
    assert Distant.log == []
    assert outcome(run(Distant(shards), estep, schedule)) == expected
    sizes = sorted(len(Narrow.needs(shard)) for shard in shards)
    assert sorted(size for size in Distant.log if size) == sorted(2 * sizes)
    assert max(sizes) < N_SYMBOLS


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("estep", [EStep([ONES]), EStep([EACH], warm_start=True)], ids=["over the corpus", "warm"])
def test_shards_that_keep_multipliers_are_sent_everything(estep):
    found = run(Distant(SHARDS), estep)
    assert found.posed.needs is None
    assert outcome(found) == outcome(run(Local(SHARDS), estep))


def test_small_parameters_are_sent_at_once():
    Distant.log.clear()
    found = run(Distant(SHARDS))
    assert found.posed.needs is None
    assert outcome(found) == outcome(run(Local(SHARDS)))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("n_shards", [1, 2, 6])
def test_on_a_cluster(client, n_shards, tmp_path):
    """Batches of shards and whole passes, with a checkpoint; the bits are those of one process."""
    shards = SHARDS[:n_shards]
    for schedule in (None, Stepwise(n_batches=3)):
        expected = outcome(run(Local(shards), EStep([EACH]), schedule))
        folder = tmp_path / f"{schedule is None}"
        first = run(OnDask(shards, client), EStep([EACH]), schedule, checkpoint=folder)
        assert first.posed.needs is not None
        assert outcome(first) == expected
        assert outcome(run(OnDask(shards, client), EStep([EACH]), schedule, checkpoint=folder)) == expected


@dataclass(frozen=True)
class Mortal(Narrow):
    """Its process ends when it first scores the last shard that comes to it."""

    path: str = ""
    at: int = 0

    def restrict(self, params, needs):
        model, own = super().restrict(params, needs)
        return Mortal(model.n_states, model.n_symbols, model.symbols, self.path, self.at), own

    def scores(self, params, shard):
        if self.symbols is not None and shard.tokens[0] == self.at:
            die_once(self.path)
        return super().scores(params, shard)


@pytest.mark.usefixtures("always")
def test_a_killed_worker_changes_no_bit(client, restock, tmp_path):
    restock()
    mortal = Mortal(path=str(tmp_path / "died"), at=int(SHARDS[3].tokens[0]))
    found = run(OnDask(SHARDS, client, tmp_path), EStep([EACH]), Stepwise(n_batches=2), model=mortal)
    assert (tmp_path / "died").exists()
    assert outcome(found) == outcome(run(Local(SHARDS), EStep([EACH]), Stepwise(n_batches=2)))
