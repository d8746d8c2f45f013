"""Entries of files of constraints that have a name of their own: ``sparsity: 32``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from spectrem.constraints.clusters import AnyLinks, at_least_one_per, cannot_link, cluster_size, must_link
from spectrem.constraints.columns import Scalar
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.file_columns import Names, read_dictionary, read_pairs, read_values
from spectrem.constraints.file_entries import (
    finish_entry,
    located,
    read_columns,
    read_expectation_entry,
    read_share,
    read_slack,
    required,
)
from spectrem.constraints.file_nodes import Node
from spectrem.constraints.proportions import Share, label_proportions, tag_proportions
from spectrem.constraints.shortcuts import agreement, fertility
from spectrem.constraints.tags import at_least, at_most, dictionary_in_expectation, sparsity


def read_entry(node: Node, names: Names) -> Iterable[Constraint | AnyLinks]:
    """The constraints of one entry."""
    if isinstance(node.value, str):
        if node.value not in ("agreement", "fertility"):
            node.fail(f"expected a mapping, 'agreement' or 'fertility', found {node.found}")
        return [agreement() if node.value == "agreement" else fertility()]
    fields = node.mapping("a mapping with 'expect' or 'tags', as in {tags: VERB, at_least: 1}")
    for key, read in _READERS.items():
        if key in fields:
            with located(node):
                return read(node, names)
    return node.fail(f"an entry starts with one of {', '.join(_READERS)}; found {node.found}")


def _tags(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    fields = node.only(("tags", "at_least", "at_most", "per", "slack", "allow_empty", "name"), "an entry with 'tags'")
    given = [key for key in ("at_least", "at_most") if key in fields]
    if len(given) != 1:
        node.fail(f"give one of at_least and at_most; found {' and '.join(given) or 'neither'}")
    tags = read_values(fields["tags"])
    number = fields[given[0]].number()
    per = names.column(fields["per"]) if "per" in fields else "sentence"
    made = at_least(number, tags, per) if given == ["at_least"] else at_most(number, tags, per)
    return [finish_entry(made, {key: fields[key] for key in ("slack", "allow_empty", "name") if key in fields}, names)]


def _tag_proportions(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    fields = node.only(("tag_proportions", "slack"), "an entry with 'tag_proportions'")
    shares = _read_shares(fields["tag_proportions"], "a mapping such as {VERB: [0.1, 0.2], DET: 10%}")
    with located(fields["tag_proportions"]):
        made = tag_proportions(shares)
    return [read_slack(one, fields["slack"]) for one in made] if "slack" in fields else list(made)


def _label_proportions(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    fields = node.only(("label_proportions", "of", "slack"), "an entry with 'label_proportions'")
    given = fields["label_proportions"]
    of = names.column(fields["of"]) if "of" in fields else "row"
    if isinstance(given.value, list) and not any(isinstance(member.value, list) for member in given.value):
        shares: Mapping[Scalar, Share] | list[Share] = [read_share(member) for member in given.value]
    else:
        shares = _read_shares(given, "a mapping such as {spam: [0.1, 0.2], ham: 70%}, or a list of all shares")
    with located(given):
        made = label_proportions(shares, of)
    return [read_slack(one, fields["slack"]) for one in made] if "slack" in fields else list(made)


def _read_shares(node: Node, wanted: str) -> dict[Scalar, Share]:
    shares: dict[Scalar, Share] = {}
    for value, share in read_pairs(node, wanted):
        if isinstance(share.value, list):
            ends = [read_share(end) for end in share.value]
            if len(ends) != 2:
                share.fail(f"expected a share or [low, high], found {share.found}")
            shares[value] = (ends[0], ends[1])
        else:
            shares[value] = read_share(share)
    return shares


def _must_link(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    column = _read_link_column(node, "must_link", names)
    return [must_link(_read_pairs_of_rows(node, "must_link")) if column is None else must_link(column=column)]


def _cannot_link(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    column = _read_link_column(node, "cannot_link", names)
    return [cannot_link(_read_pairs_of_rows(node, "cannot_link")) if column is None else cannot_link(column=column)]


def _read_link_column(node: Node, head: str, names: Names) -> str | None:
    """The column of ``{must_link: {column: household}}``; None for a list of pairs."""
    given = node.only((head,), f"an entry with {head!r}")[head]
    if not isinstance(given.value, dict):
        return None
    fields = given.only(("column",), head)
    return (
        names.column(fields["column"]) if "column" in fields else given.fail(f"expected a column, found {given.found}")
    )


def _read_pairs_of_rows(node: Node, head: str) -> list[list[int]]:
    pairs, given = [], node.only((head,), f"an entry with {head!r}")[head]
    for member in given.items("a list of pairs of rows, as in [[0, 3], [1, 2]], or {column: household}"):
        rows = [row.number("the number of a row, from 0") for row in member.items("a pair of rows, as in [0, 3]")]
        if len(rows) != 2 or not all(row == int(row) and abs(row) < 2**63 for row in rows):
            member.fail(f"expected a pair of rows, as in [0, 3], found {rows}")
        pairs.append([int(row) for row in rows])
    return pairs


def _cluster_size(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    fields = node.only(("cluster_size", "slack", "name"), "an entry with 'cluster_size'")
    ends = fields["cluster_size"].only(("min", "max"), "cluster_size")
    least, most = (_read_end(ends[key]) if key in ends else none for key, none in (("min", 0), ("max", None)))
    return [finish_entry(cluster_size(least or 0, most), _without(fields, "cluster_size"), names)]


def _read_end(node: Node) -> float | str:
    """A number of rows, or a share as ``20%``."""
    return (
        node.value
        if isinstance(node.value, str) and node.value.endswith("%")
        else node.number("a number, or a share as 20%")
    )


def _at_least_one_per(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    head = "at_least_one_per"
    fields = node.only((head, "label", "slack", "allow_empty", "name"), f"an entry with {head!r}")
    label = fields["label"].scalar("a label, or the number of a cluster") if "label" in fields else None
    made = at_least_one_per(names.column(fields[head]), label)
    return [finish_entry(made, _without(fields, head, "label"), names)]


def _sparsity(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    fields = node.only(("sparsity", "min_count", "name"), "an entry with 'sparsity'")
    strength = fields["sparsity"].number("a positive number")
    count = fields["min_count"].number("a whole number of at least 1") if "min_count" in fields else 10
    if count != int(count):
        fields["min_count"].fail(f"expected a whole number of at least 1, found {count!r}")
    return [finish_entry(sparsity(strength, int(count)), _without(fields, "sparsity", "min_count"), names)]


def _dictionary(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    head = "dictionary_in_expectation"
    fields = node.only((head, "strength", "share", "name"), f"an entry with {head!r}")
    strength = required(fields, "strength", node).number("a positive number")
    share = read_share(fields["share"]) if "share" in fields else 0.0
    made = dictionary_in_expectation(read_dictionary(fields[head]), strength, share=share)
    return [finish_entry(made, _without(fields, head, "strength", "share"), names)]


def _fertility(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    fields = node.only(("fertility", "slack", "name"), "an entry with 'fertility'")
    limits = fields["fertility"]
    if not isinstance(limits.value, dict):
        made = fertility(limits.number("the largest number of links, or {min: 0.5, max: 3}"))
    else:
        ends = limits.only(("min", "max"), "fertility")
        made = fertility(
            max=ends["max"].number() if "max" in ends else None, min=ends["min"].number() if "min" in ends else 0
        )
    return [finish_entry(made, _without(fields, "fertility"), names)]


def _agreement(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    fields = node.only(("agreement", "per", "slack", "name"), "an entry with 'agreement'")
    both = fields["agreement"].items("the two names, as in [forward, backward]")
    if len(both) != 2:
        fields["agreement"].fail(f"expected two names, as in [forward, backward], found {fields['agreement'].found}")
    pair = (both[0].text("a name"), both[1].text("a name"))
    made = agreement(tuple(read_columns(fields["per"], names)), pair) if "per" in fields else agreement(names=pair)
    return [finish_entry(made, _without(fields, "agreement", "per"), names)]


def _expectation(node: Node, names: Names) -> list[Constraint | AnyLinks]:
    return [read_expectation_entry(node, names)]


def _without(fields: Mapping[Scalar, Node], *keys: str) -> dict[Scalar, Node]:
    return {key: value for key, value in fields.items() if key not in keys}


_READERS: dict[str, Callable[[Node, Names], list[Constraint | AnyLinks]]] = {
    "expect": _expectation,
    "tags": _tags,
    "tag_proportions": _tag_proportions,
    "sparsity": _sparsity,
    "dictionary_in_expectation": _dictionary,
    "fertility": _fertility,
    "agreement": _agreement,
    "label_proportions": _label_proportions,
    "cluster_size": _cluster_size,
    "at_least_one_per": _at_least_one_per,
    "must_link": _must_link,
    "cannot_link": _cannot_link,
}
