"""Several structures over the same instances, or over named parts of them, side by side."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_active, as_gamma, as_integers, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.structures._columns import TEXT, declared_missing, missing_of
from spectrem.structures._polytopes import join_polytopes
from spectrem.structures._ragged import check_direction, check_instance, check_scores, no_parts, positions_of
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Differentiable, Polytope, Structure


@brief_dataclass(frozen=True, eq=False)
class Product:
    """Every instance carries structures of several kinds, independent but for constraints that couple them.

    Values add up, parts stand side by side. Equality rows over two members make it the dual decomposition of
    [Samdani2012] alg. 3 and the agreement of [Ganchev2010] §5; members over entities and over pairs of entities are
    the joint labelling of [RothYih2004].

    Use when several models must agree, or inform each other, about the same instances, or when an instance has several
    variables with labels of their own.

    Parameters
    ----------
    members : mapping of str -> Structure
        One or more. Those without owners have the instances of the product.
    name : str, default "view"
        The column that tells members apart.
    owners : mapping of str -> array-like of int, optional
        For members over parts of instances, such as the entities of a sentence: the instance of the product, counted
        from 0, to which each of the member's own instances belongs. Any number may belong to one.
    joined : collection of str, optional
        Columns that mean the same in all members that have them, besides those that are joined by default.
    apart : collection of str, optional
        Columns that have the same name and do not mean the same.
    n_instances : int, optional
        Needed where every member has owners.
    instance_name : str, optional
        The column that numbers the instances of the product; by default as the first member without owners calls it, or
        ``instance``.
    columns : mapping of str -> mapping of name -> ndarray, optional
        For some members, what their parts have in place of the member's own columns, one value per part. The
        member's own instance column is needed among them.

    Raises
    ------
    InvalidInputError
        If there are no members, the numbers of instances differ, an owner is no instance, or names are empty.

    Notes
    -----
    ``Parts.unary`` is that of the members one after the other, ``Parts.factors`` likewise. Columns, missing (NaN) on
    the parts of members that do not have them:

    * the instances of the product, by ``instance_name``;
    * for every member with owners, by its name, the place of its instances among those of one owner, from 0;
    * ``name``, with the members' names;
    * columns of the members. Of columns of one name those of members without owners join, but for labels, which
      mean something in their own structure only: there, ``"tag"`` of the member ``"old"`` is called ``"old_tag"``.
      ``joined`` and ``apart`` say otherwise. There is one ``occurrence`` at most: others are left out, as they number
      what a batch has and not what an instance has.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Categorical, Parts, Product
    >>> both = Product({"text": Categorical([2]), "links": Categorical([3])})
    >>> values, marginals = both.smoothed_max(Parts(np.zeros(5)), gamma=1.0)
    >>> float(np.exp(values[0]).round(12)), both.columns["view"].tolist(), both.columns["links_label"].tolist()
    (6.0, ['text', 'text', 'links', 'links', 'links'], [nan, nan, 0.0, 1.0, 2.0])

    A label for each of two entities, and one for their pair:

    >>> sentence = Product(
    ...     {"entity": Categorical([2, 2]), "pair": Categorical([2])},
    ...     owners={"entity": [0, 0], "pair": [0]}, n_instances=1,
    ... )
    >>> sentence.columns["instance"].tolist(), sentence.columns["entity"].tolist()
    ([0, 0, 0, 0, 0, 0], [0.0, 0.0, 1.0, 1.0, nan, nan])
    """

    members: Mapping[str, Structure]
    name: str
    owners: Mapping[str, Ints]
    joined: tuple[str, ...]
    apart: tuple[str, ...]
    n_instances: int
    instance_name: str
    replaced: Mapping[str, Mapping[str, NDArray]]

    def __init__(
        self,
        members: Mapping[str, Structure],
        name: str = "view",
        *,
        owners: Mapping[str, ArrayLike] | None = None,
        joined: Collection[str] = (),
        apart: Collection[str] = (),
        n_instances: int | None = None,
        instance_name: str | None = None,
        columns: Mapping[str, Mapping[str, NDArray]] | None = None,
    ) -> None:
        members = dict(members)
        if not members or not name or not all(isinstance(key, str) and key for key in members):
            raise InvalidInputError(
                f"members and name must be non-empty strings, at least one member; got {list(members)!r} and {name!r}; "
                "try Product({'forward': one, 'backward': other}, name='direction')"
            )
        owned = {key: as_integers(owner, f"owners[{key!r}]") for key, owner in (owners or {}).items()}
        if unknown := set(owned) - set(members):
            raise InvalidInputError(f"owners must name members, {list(members)}; got {sorted(unknown)}")
        sizes = {key: member.n_instances for key, member in members.items() if key not in owned}
        if n_instances is not None:
            sizes["n_instances"] = n_instances
        if len(set(sizes.values())) != 1:
            raise InvalidInputError(
                f"members without owners must have the same instances; got {sizes or 'none'}; build all from the same "
                "batch, with empty structures where one has none, or say n_instances where every member has owners"
            )
        n = next(iter(sizes.values()))
        for key, owner in owned.items():
            if len(owner) != members[key].n_instances or ((owner < 0) | (owner >= n)).any():
                raise InvalidInputError(
                    f"owners[{key!r}] must have an instance in 0..{n - 1} for each of {members[key].n_instances}; got "
                    f"{owner.tolist()[:10]} ({len(owner)}); count instances from 0"
                )
        named = (member.instance_name for key, member in members.items() if key not in owned)
        vars(self).update(
            members=members, name=name, owners=owned, joined=tuple(joined), apart=tuple(apart), n_instances=n,
            instance_name=instance_name or next(named, "instance"), replaced=dict(columns or {}),
        )  # fmt: skip

    @cached_property
    def n_unary(self) -> int:
        """Number of unary parts of all members."""
        return sum(member.n_unary for member in self.members.values())

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the factors of all members, one member after the other."""
        return tuple(shape for member in self.members.values() for shape in member.factor_shapes)

    @cached_property
    def instance(self) -> Ints:
        """Instance of every unary part, shape (n_unary,)."""
        return np.concatenate([self._instance_of(key) for key in self.members])

    @property
    def choice(self) -> Ints:
        """Choices of the first member, then those of the next, shape (n_unary,); built anew at every call."""
        choices: list[Ints] = []
        start = 0
        for member in self.members.values():
            choices.append(member.choice + start)
            start = int(choices[-1].max(initial=start - 1)) + 1
        return np.concatenate(choices)

    @property
    def choices_vary(self) -> bool:
        """Whether the structures of a member differ in which choices they make."""
        return any(getattr(member, "choices_vary", False) for member in self.members.values())

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Columns that hold labels of a member."""
        return tuple(
            name
            for name, sources in self._sources.items()
            if any(column in _labels(self.members[key]) for key, column in sources.items())
        )

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """The columns of the class notes, each of shape (n_unary,); built anew at every call."""
        of_members = self._member_columns()
        self.__dict__["_sources"] = sources = self._name_columns(of_members)
        sizes = {key: member.n_unary for key, member in self.members.items()}
        columns = {self.instance_name: self.instance}
        for name, column_of in sources.items():
            pieces = {
                key: self._place_of(key) if self._is_unit(key, column) else np.asarray(of_members[key][column])
                for key, column in column_of.items()
            }
            if name == "occurrence" and len(pieces) > 1:
                _check_numbering(name, {key: (piece, self._instance_of(key)) for key, piece in pieces.items()})
            columns[name] = _join_column(name, pieces, sizes)
        columns[self.name] = np.repeat(np.array(list(sizes)), list(sizes.values()))
        return columns

    @property
    def column_values(self) -> Mapping[str, tuple[str, ...]]:
        """The values of the column that tells members apart."""
        return {self.name: tuple(self.members)}

    def missing(self, name: str) -> Bools | None:
        """Parts that belong to no group of a column: as members say, and all of a member without it; None for none.

        Parameters
        ----------
        name : str
            Of a column.

        Returns
        -------
        ndarray of shape (n_unary,), bool, or None
        """
        if name not in self._sources:
            return None
        masks, some = [], False
        for key, member in self.members.items():
            column = self._sources[name].get(key)
            mask = None
            if column is not None and not self._is_unit(key, column):
                columns = self.replaced.get(key)
                mask = declared_missing(member, column) if columns is None else missing_of(columns[column])
            masks.append(np.full(member.n_unary, column is None) if mask is None else mask)
            some = some or column is None or mask is not None
        return np.concatenate(masks) if some else None

    def split(self, parts: Parts) -> tuple[Parts, ...]:
        """The parts of every member, as views.

        Parameters
        ----------
        parts : Parts
            Of the product.

        Returns
        -------
        tuple of Parts
            One per member.
        """
        shares, unary, factor = [], 0, 0
        for member in self.members.values():
            n_unary, n_factors = member.n_unary, len(member.factor_shapes)
            shares.append(Parts(parts.unary[unary : unary + n_unary], parts.factors[factor : factor + n_factors]))
            unary, factor = unary + n_unary, factor + n_factors
        return tuple(shares)

    def join(self, *shares: Parts) -> Parts:
        """The inverse of `split` (a copy).

        Parameters
        ----------
        *shares : Parts
            One per member.

        Returns
        -------
        Parts
            Of the product.
        """
        return Parts(
            np.concatenate([share.unary for share in shares]), tuple(f for share in shares for f in share.factors)
        )

    def smoothed_max(
        self, scores: Parts, gamma: float, *, active: Bools | None = None, weights: Floats | None = None
    ) -> tuple[Floats, Parts]:
        """Sum of all values, shape (n_instances,) in nats, and all marginals; see `Structure.smoothed_max`."""
        gamma = as_gamma(gamma)
        shares = self.split(check_scores(self, scores))
        mask, weight = as_active(active, self.n_instances), as_weights(weights, self.n_instances)

        def run(key: str, share: Parts, among: Bools) -> tuple[Floats, Parts]:
            owner = self.owners.get(key, slice(None))
            return self.members[key].smoothed_max(share, gamma, active=among[owner], weights=weight[owner])

        results = [run(key, share, mask) for key, share in zip(self.members, shares, strict=True)]
        values = np.zeros(self.n_instances)
        for key, (of_member, _) in zip(self.members, results, strict=True):
            values += np.bincount(self.owners[key], of_member, self.n_instances) if key in self.owners else of_member
        possible = mask & ~np.isneginf(values)
        if (mask & ~possible).any():
            # One member is impossible and so is the instance: the others must leave no marginals either.
            results = [run(key, share, possible) for key, share in zip(self.members, shares, strict=True)]
        return values, self.join(*(marginals for _, marginals in results))

    @property
    def covariances(self) -> Callable[..., tuple[Floats, Parts]]:
        """The method `Differentiable.covariances`, if all members have it."""
        of_members = {key: cast(Differentiable, member).covariances for key, member in self.members.items()}

        def covariances(scores: Parts, along: Parts, weights: Floats | None = None) -> tuple[Floats, Parts]:
            scores, (along, weights) = check_scores(self, scores), check_direction(self, along, weights)
            possible, means = self.smoothed_max(scores, 1.0)[0] > -np.inf, np.zeros(self.n_instances)
            weights, products = np.where(possible, weights, 0.0), []
            for (key, covary), share, direction in zip(
                of_members.items(), self.split(scores), self.split(along), strict=True
            ):
                owner = self.owners.get(key, np.arange(self.n_instances))
                mean, product = covary(share, direction, weights[owner])
                means += np.bincount(owner, mean, self.n_instances)
                products.append(product)
            joined = self.join(*products)
            return np.where(possible, means, 0.0), Parts(joined.unary * possible[self.instance], joined.factors)

        return covariances

    def decode(self, scores: Parts) -> Ints:
        """The members' best structures, one member after the other, each in its own form."""
        shares = self.split(check_scores(self, scores))
        members = self.members.values()
        return np.concatenate([member.decode(share) for member, share in zip(members, shares, strict=True)])

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """The polytopes of all members, block by block."""
        n = check_instance(self, instance)
        shares = self.split(check_scores(self, scores))
        sizes = [[factor.size for factor in share.factors] for share in shares]
        blocks, start = [], 0
        for number, (key, share) in enumerate(zip(self.members, shares, strict=True)):
            member = self.members[key]
            for i in self._own_instances(key, n):
                piece = member.polytope(share, i)
                factors = [[sp.csr_array((size, len(piece.objective))) for size in others] for others in sizes]
                factors[number] = list(piece.factors)
                blocks.append(
                    replace(piece, unary_index=start + piece.unary_index, factors=tuple(itertools.chain(*factors)))
                )
            start += member.n_unary
        return join_polytopes(blocks, list(itertools.chain(*sizes)))

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every combination of the members' structures as indicators, the first member's changing last.

        Parameters
        ----------
        instance : int
            From 0; a small one, as there may be very many structures.

        Yields
        ------
        Parts
            Indicators, 0 or 1.
        """
        n = check_instance(self, instance)
        instances = [(key, i) for key in self.members for i in self._own_instances(key, n)]
        lists = [list(cast(Any, self.members[key]).enumerate(i)) for key, i in instances]
        for chosen in itertools.product(*lists):
            whole = no_parts(self)
            shares = dict(zip(self.members, self.split(whole), strict=True))
            for (key, _), indicator in zip(instances, chosen, strict=True):
                shares[key].add(indicator, 1.0)
            yield whole

    @cached_property
    def _sources(self) -> dict[str, dict[str, str]]:
        return self._name_columns(self._member_columns())

    def _member_columns(self) -> dict[str, Mapping[str, NDArray]]:
        return {key: self.replaced.get(key) or member.columns for key, member in self.members.items()}

    def _name_columns(self, columns: Mapping[str, Mapping[str, NDArray]]) -> dict[str, dict[str, str]]:
        """For every name of a column of the product, the column that it joins in each member that has it.

        Raises
        ------
        InvalidInputError
            If two columns would have the same name.
        """
        taken = (self.instance_name, self.name)
        holders = Counter(itertools.chain(*columns.values()))
        sources: dict[str, dict[str, str]] = {}
        for key, member in self.members.items():
            is_inside, labels = key in self.owners, _labels(member)
            for column in columns[key]:
                is_unit = column == member.instance_name
                if (is_unit and not is_inside) or column == self.name:
                    continue
                name = key
                if not is_unit:
                    plain = not is_inside and column not in labels and column not in self.apart
                    kept = column not in taken and (holders[column] == 1 or plain or column in self.joined)
                    if column == "occurrence" and not kept:
                        continue
                    name = column if kept else f"{key}_{column}"
                together = sources.setdefault(name, {})
                if name in taken or any(other != column for other in together.values()):
                    raise InvalidInputError(
                        f"members: column {column!r} of {key!r} would be called {name!r}, which is the name of another "
                        "column; call the member otherwise"
                    )
                together[key] = column
        return sources

    def _own_instances(self, key: str, instance: int) -> list[int]:
        """The instances of a member that belong to one of the product."""
        owner = self.owners.get(key)
        return [instance] if owner is None else np.flatnonzero(owner == instance).tolist()

    def _is_unit(self, key: str, column: str) -> bool:
        """Whether a member's column numbers the parts of instances that it is over."""
        return key in self.owners and column == self.members[key].instance_name

    def _place_of(self, key: str) -> Ints:
        """For every part of a member with owners, the place of its instance among those of the same owner."""
        owner = self.owners[key]
        place = np.empty(len(owner), np.int64)
        place[np.argsort(owner, kind="stable")] = positions_of(np.bincount(owner, minlength=self.n_instances))
        return place[self.members[key].instance]

    def _instance_of(self, key: str) -> Ints:
        instance = self.members[key].instance
        return self.owners[key][instance] if key in self.owners else instance


def _labels(structure: Structure) -> tuple[str, ...]:
    return tuple(getattr(structure, "label_columns", ()))


def _join_column(name: str, pieces: Mapping[str, NDArray], sizes: Mapping[str, int]) -> NDArray:
    """One column over all members; members without it have NaN there.

    Raises
    ------
    InvalidInputError
        If it holds text in one member and numbers in another, or truth values and other numbers.
    """
    kinds = {key: _kind(piece) for key, piece in pieces.items()}
    first, *others = kinds
    for other in others:
        if kinds[other] != kinds[first]:
            raise InvalidInputError(
                f"members: column {name!r} holds {kinds[first]} in {first!r} and {kinds[other]} in {other!r}; "
                f"keep them apart, as in apart=[{name!r}]"
            )
    if len(pieces) == len(sizes) and not any(piece.dtype.kind in "TO" for piece in pieces.values()):
        return np.concatenate(list(pieces.values()))
    dtype: Any = {"text": TEXT, "objects": object}.get(kinds[first], np.float64)
    whole = np.empty(sum(sizes.values()), dtype)
    whole[:] = np.nan  # of which np.full makes text before NumPy 2.3
    start = 0
    for key, size in sizes.items():
        if key in pieces:
            whole[start : start + size] = pieces[key]
        start += size
    return whole


def _check_numbering(name: str, places: Mapping[str, tuple[NDArray, Ints]]) -> None:
    """Refuse to join columns that number different things; ``places`` has the column and the instance of every part."""
    instance_of = {}
    for key, (number, instance) in places.items():
        place = np.full(int(number.max(initial=-1)) + 1, -1)
        place[number] = instance
        instance_of[key] = place
    first, *others = instance_of
    for other in others:
        if not np.array_equal(instance_of[first], instance_of[other]):
            raise InvalidInputError(
                f"members: column {name!r} numbers different things in {first!r} and {other!r}, as they are not in "
                f'the same instances; keep them apart, as in apart=["token", {name!r}]'
            )


def _kind(values: NDArray) -> str:
    return {"b": "truth values", "U": "text", "T": "text", "O": "objects"}.get(values.dtype.kind, "numbers")
