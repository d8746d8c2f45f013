"""Several log-linear models over the same instances, or over named parts of them, which constraints tie together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem.constraints.compilation.draft import PartTable
from spectrem.constraints.compilation.groups import Key
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.models.loglinear.features import LogLinearShard, at, cut_by_known, instance_values, some_of
from spectrem.models.shards import in_corpus_order
from spectrem.structures import Parts, Product, Structure


@brief_dataclass(frozen=True, eq=False)
class JointShard:
    """Some instances of a corpus, each with variables of several kinds.

    Attributes
    ----------
    members : mapping of name -> LogLinearShard
        Those over parts of instances have owners, which count the instances of the shard from 0.
    weights : ndarray of shape (n_instances,), float64
    instances : ndarray of shape (n_instances,), int64
        Numbers of the instances in the corpus.
    known : bool
        Whether the labels of all members are given.
    columns : mapping of name -> ndarray of shape (n_instances,)
        What constraints may name beside the columns of the members.
    given : ndarray of shape (n_instances,), bool, or None
        Instances that are labelled among others that are not; None if there are none.
    counts : ndarray of shape (n_instances,), float64, or None
        How often instances count in constraints; None: by their weights.
    """

    members: Mapping[str, LogLinearShard]
    weights: Floats
    instances: Ints
    known: bool
    columns: Mapping[str, NDArray] = field(default_factory=dict)
    given: Bools | None = None
    counts: Floats | None = None


def build_joint_shards(
    members: Mapping[str, LogLinearShard],
    n_labels: Mapping[str, int],
    known: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    columns: Mapping[str, NDArray] | None = None,
    given: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    *,
    present: ArrayLike | None = None,
    n_instances: int | None = None,
    n_weights: int = 0,
    least: int | None = None,
) -> list[JointShard]:
    """Cut a corpus into shards: first instances whose labels are to be inferred, then those that are known.

    Parameters
    ----------
    members : mapping of name -> LogLinearShard
        Those without owners have the instances of the whole.
    n_labels : mapping of name -> int
    known, weights, columns, given, counts, present, n_weights, least
        As for `build_shards`, of whole instances.
    n_instances : int, optional
        Needed where every member has owners.

    Raises
    ------
    InvalidInputError
        If members do not fit each other, or a column has another length.
    """
    sizes = {key: member.n_instances for key, member in members.items() if member.owners is None}
    if n_instances is not None:
        sizes["n_instances"] = n_instances
    if len(set(sizes.values())) != 1:
        raise InvalidInputError(
            f"members without owners must have the same instances, got {sizes or 'none'}; say n_instances where every "
            "member has owners"
        )
    n = next(iter(sizes.values()))
    values = instance_values(n, weights, given, counts)
    owners: dict[str, Ints] = {}
    work = np.zeros(n, np.int64)
    for key, member in members.items():
        member.check()
        owner = owners[key] = np.arange(n) if member.owners is None else member.owners
        if len(owner) != member.n_instances or (len(owner) and not 0 <= owner.min() <= owner.max() < n):
            raise InvalidInputError(
                f"members[{key!r}].owners must have an instance in 0..{n - 1} for each of {member.n_instances}, got "
                f"{owner.tolist()[:10]} ({len(owner)}); count instances from 0"
            )
        np.add.at(work, owner, member.work(n_labels[key]))
    for name, column in (columns or {}).items():
        if len(column) != n:
            raise InvalidInputError(f"columns[{name!r}] must have {n} values, one per instance; got {len(column)}")

    def take(chosen: Ints, kind: bool) -> JointShard:
        place, weight, shards = np.full(n, -1), values["weights"], {}
        place[chosen] = np.arange(len(chosen))
        for key, member in members.items():
            owner = place[owners[key]]
            owned = np.flatnonzero(owner >= 0)
            owned = owned[np.argsort(owner[owned], kind="stable")]
            shard = member.take(owned, n_labels[key], known=kind)
            local = None if member.owners is None else owner[owned]
            shards[key] = replace(shard, weights=weight[chosen][owner[owned]], owners=local)
        extra = {name: column[chosen] for name, column in (columns or {}).items()}
        return JointShard(
            shards, weight[chosen], chosen, kind, extra, some_of(values["given"], chosen), at(values["counts"], chosen)
        )

    return [take(chosen, kind) for chosen, kind in cut_by_known(work, known, present, n_weights, least)]


def member_tables(
    shards: Sequence[JointShard], members: Mapping[str, LogLinearShard], tables: Iterable[Mapping[str, Floats]]
) -> dict[str, Floats]:
    """A table for every member, with the rows of its choices in their order.

    Parameters
    ----------
    shards : sequence of JointShard
        All of a corpus.
    members : mapping of name -> LogLinearShard
        Of which they were cut.
    tables : iterable of (mapping of name -> ndarray)
        Of every shard, such as those of `JointModel.distributions`.
    """
    listed = list(tables)
    return {
        name: in_corpus_order(
            [shard.members[name] for shard in shards], [table[name] for table in listed], member.sizes
        )
        for name, member in members.items()
    }


@brief_dataclass(frozen=True, eq=False)
class JointModel:
    """Log-linear models side by side, independent but for the constraints that name parts of several of them.

    Parameters and statistics are one flat array, member after member; so the M-step is one for each member.

    Use when an instance has variables of several kinds, such as the entities of a sentence and the relations between
    them, or when several views of the same instances are to agree.

    Parameters
    ----------
    members : mapping of name -> LogLinearModel
        Or other models over `LogLinearShard` with the same methods.
    name : str
        The column that tells members apart.
    instance_name : str
        The column with the numbers of the instances.
    labels : mapping of name -> str, optional
        What constraints call the labels of a member; by default as `Product` names columns.
    joined, apart : sequence of str
        As for `Product`.

    Examples
    --------
    Two views of a row, of which only one has learnt something, and which must agree:

    >>> from spectrem import E, part
    >>> from spectrem.learning import EStep, Stopping, run_em
    >>> from spectrem.models.loglinear import Features, LogLinearModel, Support
    >>> read = {"text": Features.of([[-1.0], [2.0]]), "links": Features.of([[1.0], [0.0]])}
    >>> data = {name: LogLinearShard.whole(features) for name, features in read.items()}
    >>> one = LogLinearModel(Support(n_features=1, n_labels=2))
    >>> model = JointModel({"text": one, "links": one}, joined=("label",))
    >>> view = part("view")
    >>> agree = E[view == "text"].per("row", "label") == E[view == "links"].per("row", "label")
    >>> shards = build_joint_shards(data, {"text": 2, "links": 2})
    >>> start = np.array([-1.0, 1.0, 0.0, 0.0])
    >>> result = run_em(model, shards, start, EStep(agree), stopping=Stopping(1))
    >>> bool((result.params[2:] != 0).all())
    True
    """

    members: Mapping[str, Any]
    name: str = "view"
    instance_name: str = "row"
    labels: Mapping[str, str] = field(default_factory=dict)
    joined: Sequence[str] = ()
    apart: Sequence[str] = ()

    @property
    def n_weights(self) -> int:
        """The number of parameters."""
        return sum(member.n_weights for member in self.members.values())

    def split(self, theta: Floats) -> dict[str, Floats]:
        """The parameters of every member, as views."""
        ends = np.cumsum([member.n_weights for member in self.members.values()])
        return dict(zip(self.members, np.split(theta, ends[:-1]), strict=True))

    def initial(self) -> Floats:
        """All weights 0."""
        return np.zeros(self.n_weights)

    def structure(self, shard: JointShard) -> Product:
        """The structures of the members side by side."""
        structures = {key: member.structure(shard.members[key]) for key, member in self.members.items()}
        return self._product(shard, structures)

    def scores(self, theta: Floats, shard: JointShard) -> Parts:
        """Scores of the parts of all members, nats."""
        thetas = self.split(theta)
        shares = [member.scores(thetas[key], shard.members[key]) for key, member in self.members.items()]
        return Parts(np.concatenate([share.unary for share in shares]), sum((share.factors for share in shares), ()))

    def log_normaliser(self, theta: Floats, shard: JointShard) -> float:
        """The sum of those of the members, nats."""
        thetas = self.split(theta)
        return sum(member.log_normaliser(thetas[key], shard.members[key]) for key, member in self.members.items())

    def gather(self, theta: Floats, shard: JointShard, marginals: Parts) -> Floats:
        """Expected values of all features, member after member."""
        thetas, shares = self.split(theta), self.shares(shard, marginals)
        counts = [member.gather(thetas[key], shard.members[key], shares[key]) for key, member in self.members.items()]
        return np.concatenate(counts)

    def shares(self, shard: JointShard, marginals: Parts) -> dict[str, Parts]:
        """The marginals of every member, as views."""
        return dict(zip(self.members, self.structure(shard).split(marginals), strict=True))

    def distributions(self, shard: JointShard, marginals: Parts) -> dict[str, Floats]:
        """The marginals of all labels of all choices, shape (n_choices, n_labels), by member."""
        shares = self.shares(shard, marginals)
        return {key: member.distributions(shard.members[key], shares[key]) for key, member in self.members.items()}

    def columns(self, shard: JointShard) -> Mapping[str, Key]:
        """Columns of the members, as `Product` joins them, ``labelled``, and those of the shard.

        Instances have their numbers in the corpus.
        """
        structures, columns = {}, {}
        for key, member in self.members.items():
            structure = structures[key] = member.structure(shard.members[key])
            table = PartTable(structure, member.columns(shard.members[key]))
            names = dict.fromkeys([*table.structure_columns, *table.extra_columns])
            values = {name: np.asarray(table.column(name)) for name in names if name != "labelled"}
            columns[key] = {self._called(key, structure, name): column for name, column in values.items()}
        joined = self._product(shard, structures, columns)
        labelled = np.full(len(shard.weights), shard.known) if shard.given is None else shard.given
        by_instance: dict[str, NDArray] = {
            **joined.columns,
            self.instance_name: shard.instances[joined.instance],
            "labelled": labelled[joined.instance],
        }
        return {**by_instance, **{name: column[joined.instance] for name, column in shard.columns.items()}}

    def log_prior(self, theta: Floats) -> float:
        """Log-density of the weights, nats, up to a constant."""
        thetas = self.split(theta)
        return sum(member.log_prior(thetas[key]) for key, member in self.members.items())

    def m_step(self, theta: Floats, stats: Floats, corpus: Corpus) -> Floats:
        """Weights that maximise ``theta . stats`` less the log-normalisers plus the log-prior, member by member."""
        thetas, counts = self.split(theta), self.split(stats)
        return np.concatenate(
            [member.m_step(thetas[key], counts[key], MemberCorpus(corpus, key)) for key, member in self.members.items()]
        )

    def _called(self, key: str, structure: Structure, name: str) -> str:
        labels = getattr(structure, "label_columns", ())
        return self.labels.get(key, name) if labels and name == labels[0] else name

    def _product(
        self,
        shard: JointShard,
        structures: Mapping[str, Structure],
        columns: Mapping[str, Mapping[str, NDArray]] | None = None,
    ) -> Product:
        return Product(
            structures,
            self.name,
            owners={key: one.owners for key, one in shard.members.items() if one.owners is not None},
            joined=self.joined,
            apart=self.apart,
            n_instances=len(shard.weights),
            instance_name=self.instance_name,
            columns=columns,
        )


@brief_dataclass(frozen=True, eq=False)
class MemberCorpus:
    """A corpus of joint shards as one member sees it: the corpus of that member's shards, wherever they live."""

    corpus: Corpus
    key: str

    def __len__(self) -> int:
        return len(self.corpus)

    def derive(self, f: Callable[..., Any], *broadcast: Any, each: Sequence[Any] | None = None) -> Corpus:
        """See `Corpus.derive`."""
        return self.corpus.derive(self._on_member(f), *broadcast, each=each)

    def part(self, numbers: Sequence[int]) -> Corpus:
        """See `Corpus.part`."""
        return replace(self, corpus=self.corpus.part(numbers))

    def sum(self, f: Callable[..., Any], *broadcast: Any) -> Any:
        """See `Corpus.sum`."""
        return self.corpus.sum(self._on_member(f), *broadcast)

    def collect(self, f: Callable[..., Any], *broadcast: Any, each: Sequence[Any] | None = None) -> Iterator[Any]:
        """See `Corpus.collect`."""
        return self.corpus.collect(self._on_member(f), *broadcast, each=each)

    def advance(self, f: Callable[..., Any], *broadcast: Any) -> tuple[Any, Corpus]:
        """See `Corpus.advance`."""
        return self.corpus.advance(self._on_member(f), *broadcast)

    def _on_member(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return partial(_of_member, self.key, f)


def _of_member(key: str, f: Callable[..., Any], shard: JointShard, *arguments: Any) -> Any:
    """``f`` of the shard of one member."""
    return f(shard.members[key], *arguments)


@brief_dataclass(frozen=True, eq=False)
class AgreedModel:
    """Log-linear models of the same labels from several views of an instance, which have one posterior in common.

    The distributions ``q_v`` of the views' labels that maximise ``sum_v E[s_v] + gamma H(q_v)`` and are all the same
    have the mean of the scores as their score ([Ganchev2010] props 6.1 and 6.2): the closed form of the product of the
    views under equality rows on every part. At gamma = 1 what agreement costs a pair of views is twice the
    Bhattacharyya distance of their distributions, which training thereby makes small.

    Scores, log-normalisers and log-prior are means over the views, so that constraints on the labels count every
    instance once, by its weight. The M-step maximises that of each view by itself.

    Use when two or more views (spelling and context of a name, content and context of a token) are each good enough to
    tell the label, and most instances are not labelled.

    Parameters
    ----------
    members : mapping of name -> LogLinearModel
        Of labels, or of chains, all with the same labels; or such models of chains with parts for pairs of tags.
        Parameters and statistics are one flat array, those of one member after those of another.

    Examples
    --------
    >>> from spectrem.models.loglinear import Features, LogLinearModel, LogLinearShard, Support, build_joint_shards
    >>> read = {"left": Features.of([[2.0], [1.0]]), "right": Features.of([[0.0], [1.0]])}
    >>> views = {name: LogLinearShard.whole(features) for name, features in read.items()}
    >>> model = AgreedModel({"left": LogLinearModel(Support(1, 2)), "right": LogLinearModel(Support(1, 2))})
    >>> shards = build_joint_shards(views, {"left": 2, "right": 2})
    >>> model.scores(np.array([1.0, 0.0, 0.0, 3.0]), shards[0]).unary.tolist()
    [1.0, 0.0, 0.5, 1.5]
    """

    members: Mapping[str, Any]

    @cached_property
    def apart(self) -> JointModel:
        """The views side by side, without agreement."""
        return JointModel(self.members)

    @property
    def n_weights(self) -> int:
        """The number of parameters of all views."""
        return self.apart.n_weights

    def split(self, theta: Floats) -> dict[str, Floats]:
        """The parameters of every view, as views of the array."""
        return self.apart.split(theta)

    def initial(self) -> Floats:
        """All weights 0."""
        return self.apart.initial()

    def structure(self, shard: JointShard) -> Structure:
        """The labels, or chains of labels, that all views share."""
        name, view = self._first(shard)
        return self.members[name].structure(view)

    def scores(self, theta: Floats, shard: JointShard) -> Parts:
        """The mean of the scores of the views, nats; a view without the instances of the shard counts as 0."""
        weights, total = self.split(theta), None
        for name in self._present(shard):
            scores = self.members[name].scores(weights[name], shard.members[name])
            total = scores if total is None else total.map(np.add, scores)
        assert total is not None
        return total.map(lambda sum_of_views: sum_of_views / len(self.members))

    def log_normaliser(self, theta: Floats, shard: JointShard) -> float:
        """The mean over views of the sum of log-normalisers, instances counted by their weights, nats."""
        return self.apart.log_normaliser(theta, shard) / len(self.members)

    def gather(self, theta: Floats, shard: JointShard, marginals: Parts) -> Floats:
        """Expected values of the features of every view, shape (n_weights,)."""
        thetas, present = self.split(theta), self._present(shard)
        return np.concatenate(
            [
                model.gather(thetas[name], shard.members[name], marginals)
                if name in present
                else np.zeros(model.n_weights)
                for name, model in self.members.items()
            ]
        )

    def m_step(self, theta: Floats, stats: Floats, corpus: Corpus) -> Floats:
        """The M-step of every view, from ``theta`` on."""
        return self.apart.m_step(theta, stats, corpus)

    def log_prior(self, theta: Floats) -> float:
        """The mean of the log-densities of the views' weights, nats, up to a constant."""
        return self.apart.log_prior(theta) / len(self.members)

    def columns(self, shard: JointShard) -> Mapping[str, Key]:
        """Columns for constraints: those of the first view, ``labelled``, and those of the shard."""
        name, view = self._first(shard)
        labelled = np.full(len(shard.weights), shard.known) if shard.given is None else shard.given
        return {**self.members[name].columns(view), "labelled": labelled, **shard.columns}

    def distributions(self, shard: JointShard, marginals: Parts) -> Floats:
        """The marginals of all labels of all choices, shape (n_choices, n_labels); 0 for those not allowed."""
        name, view = self._first(shard)
        return self.members[name].distributions(view, marginals)

    def _present(self, shard: JointShard) -> list[str]:
        """The views that have the instances of the shard; the others have none there."""
        n = len(shard.weights)
        return [name for name in self.members if len(shard.members[name].weights) == n]

    def _first(self, shard: JointShard) -> tuple[str, LogLinearShard]:
        name = self._present(shard)[0]
        return name, shard.members[name]
