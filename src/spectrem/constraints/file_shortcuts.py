"""Entries of files of constraints that have a name of their own: ``sparsity: 32``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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
from spectrem.constraints.shortcuts import agreement, fertility
from spectrem.constraints.tags import at_least, at_most, dictionary_in_expectation, sparsity, tag_proportions


def read_entry(node: Node, names: Names) -> Iterable[Constraint]:
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


def _tags(node: Node, names: Names) -> list[Constraint]:
    fields = node.only(("tags", "at_least", "at_most", "per", "slack", "name"), "an entry with 'tags'")
    given = [key for key in ("at_least", "at_most") if key in fields]
    if len(given) != 1:
        node.fail(f"give one of at_least and at_most; found {' and '.join(given) or 'neither'}")
    tags = read_values(fields["tags"])
    number = fields[given[0]].number()
    per = names.column(fields["per"]) if "per" in fields else "sentence"
    made = at_least(number, tags, per) if given == ["at_least"] else at_most(number, tags, per)
    return [finish_entry(made, {key: fields[key] for key in ("slack", "name") if key in fields}, names)]


def _tag_proportions(node: Node, names: Names) -> list[Constraint]:
    fields = node.only(("tag_proportions", "slack"), "an entry with 'tag_proportions'")
    shares: dict[Scalar, float | tuple[float, float]] = {}
    for tag, share in read_pairs(fields["tag_proportions"], "a mapping such as {VERB: [0.1, 0.2], DET: 10%}"):
        if isinstance(share.value, list):
            ends = [read_share(end) for end in share.value]
            if len(ends) != 2:
                share.fail(f"expected a share or [low, high], found {share.found}")
            shares[tag] = (ends[0], ends[1])
        else:
            shares[tag] = read_share(share)
    with located(fields["tag_proportions"]):
        made = tag_proportions(shares)
    return [read_slack(one, fields["slack"]) for one in made] if "slack" in fields else list(made)


def _sparsity(node: Node, names: Names) -> list[Constraint]:
    fields = node.only(("sparsity", "min_count", "name"), "an entry with 'sparsity'")
    strength = fields["sparsity"].number("a positive number")
    count = fields["min_count"].number("a whole number of at least 1") if "min_count" in fields else 10
    if count != int(count):
        fields["min_count"].fail(f"expected a whole number of at least 1, found {count!r}")
    return [finish_entry(sparsity(strength, int(count)), _without(fields, "sparsity", "min_count"), names)]


def _dictionary(node: Node, names: Names) -> list[Constraint]:
    head = "dictionary_in_expectation"
    fields = node.only((head, "strength", "share", "name"), f"an entry with {head!r}")
    strength = required(fields, "strength", node).number("a positive number")
    share = read_share(fields["share"]) if "share" in fields else 0.0
    made = dictionary_in_expectation(read_dictionary(fields[head]), strength, share=share)
    return [finish_entry(made, _without(fields, head, "strength", "share"), names)]


def _fertility(node: Node, names: Names) -> list[Constraint]:
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


def _agreement(node: Node, names: Names) -> list[Constraint]:
    fields = node.only(("agreement", "per", "slack", "name"), "an entry with 'agreement'")
    both = fields["agreement"].items("the two names, as in [forward, backward]")
    if len(both) != 2:
        fields["agreement"].fail(f"expected two names, as in [forward, backward], found {fields['agreement'].found}")
    pair = (both[0].text("a name"), both[1].text("a name"))
    made = agreement(tuple(read_columns(fields["per"], names)), pair) if "per" in fields else agreement(names=pair)
    return [finish_entry(made, _without(fields, "agreement", "per"), names)]


def _expectation(node: Node, names: Names) -> list[Constraint]:
    return [read_expectation_entry(node, names)]


def _without(fields: Mapping[Scalar, Node], *keys: str) -> dict[Scalar, Node]:
    return {key: value for key, value in fields.items() if key not in keys}


_READERS: dict[str, Callable[[Node, Names], list[Constraint]]] = {
    "expect": _expectation,
    "tags": _tags,
    "tag_proportions": _tag_proportions,
    "sparsity": _sparsity,
    "dictionary_in_expectation": _dictionary,
    "fertility": _fertility,
    "agreement": _agreement,
}
