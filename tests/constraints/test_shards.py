"""The same constraints on one shard and on several: rows, bounds, entries, slack groups, and what is refused."""

import pickle

import numpy as np
import pytest
from fake_structures import FakeStructure, tagging
from hypothesis import assume, given
from hypothesis import strategies as st
from shard_helpers import add_up, compile_all

from spectrem.constraints import (
    E,
    cannot_link,
    compile_constraints,
    compile_shard,
    corpus_rows,
    facts_of,
    linear,
    max_over,
    must_link,
    part,
)
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical

VERB = part("tag") == "VERB"
WORD, DOCUMENT, TOPIC = "word", "document", "topic"


def cut(structure, topic, weights, sizes):
    """Shards of so many sentences each, with their columns and weights, as a model would give them."""
    shards, start = [], 0
    for size in sizes:
        own = np.flatnonzero((structure.instance >= start) & (structure.instance < start + size))
        named = {name: values[own] for name, values in structure.columns.items()}
        named["sentence"] = named["sentence"] - start
        named["occurrence"] = named["occurrence"] - named["occurrence"].min(initial=len(structure.instance))
        shard = FakeStructure(size, named["sentence"], named)
        shards.append((shard, {TOPIC: topic[own]}, weights[start : start + size], own))
        start += size
    return shards


def rows_by_key(matrix, bounds, blocks, columns):
    """Of every constraint its rows: sense and keys to entries by part, and bound; and the sets that share slack."""
    found = {}
    for block in blocks:
        names = list(block.keys)
        keys = list(zip(block.senses.tolist(), *(block.keys[name].tolist() for name in names), strict=True))
        groups = {}
        for k, key in enumerate(keys):
            row = block.start + k
            entries = {} if matrix is None else dict(
                zip(
                    columns[matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]].tolist(),
                    matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]].tolist(),
                    strict=True,
                )
            )  # fmt: skip
            assert (block.name, key) not in found
            found[block.name, key] = (entries, float(bounds[row]))
            groups.setdefault(int(block.slack_group[k]), set()).add(key)
        found.setdefault((block.name, "groups"), set()).update(map(frozenset, groups.values()))
    return found


def rows_of_shards(header, parts, shards):
    """As `rows_by_key`, put together from the shards."""
    found = rows_by_key(None, header.bounds, header.blocks, None)
    names = [(b.name, *key) for b in header.blocks for key in keys_of(b)]
    for own, (*_, columns) in zip(parts, shards, strict=True):
        for key, value in rows_by_key(own.inside.matrix, own.inside.bounds, own.inside.blocks, columns).items():
            if key[1] == "groups":
                found.setdefault(key, set()).update(value)
            else:
                assert key not in found
                found[key] = value
        for k, row in enumerate(own.present.tolist()):
            span = slice(own.matrix.indptr[k], own.matrix.indptr[k + 1])
            name, *key = names[row]
            entries = zip(columns[own.matrix.indices[span]].tolist(), own.matrix.data[span].tolist(), strict=True)
            found[name, tuple(key)][0].update(entries)
    return found


def keys_of(block):
    return zip(block.senses.tolist(), *(values.tolist() for values in block.keys.values()), strict=True)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if key[1] == "groups":
            assert found[key] == value, key
        else:
            assert found[key][0] == pytest.approx(value[0]), key
            assert found[key][1] == pytest.approx(value[1]), key


TESTS = [
    VERB,
    ...,
    part("word_frequency") >= 3,
    VERB & (part("word_frequency") < 4),
    part("sentence") == 2,
    VERB & (part("occurrence") < 4),
    part("token") / 2,
    part("sentence_frequency") >= 2,
]
COLUMNS = ["sentence", "token", "occurrence", "tag", WORD, DOCUMENT, TOPIC, "word_frequency"]


@st.composite
def constraints(draw):
    tests, columns = st.sampled_from(TESTS), st.sampled_from(COLUMNS)
    groups = draw(st.lists(columns, max_size=3, unique=True))
    expected = E[draw(tests)]
    if draw(st.integers(0, 4)) == 0:
        over = draw(columns.filter(lambda name: name not in groups))
        return max_over(over, expected.per(*groups) if groups else expected).penalty(2)
    bound = draw(st.sampled_from([0, 1, 2.5]))
    if draw(st.booleans()):
        bound = bound + 0.5 * E.count(draw(tests), each=draw(st.sampled_from([None, *COLUMNS])))
    if draw(st.booleans()):
        expected = expected / E.count(draw(tests), each=draw(st.sampled_from([None, *COLUMNS])))
    if draw(st.booleans()):
        expected = expected - 2 * (E[draw(tests)] + E.count(draw(tests))) / E.count(draw(tests))
    kind = draw(st.sampled_from(["<=", ">=", "==", "between"]))
    made = {
        "<=": lambda: expected <= bound,
        ">=": lambda: expected >= bound,
        "==": lambda: expected == bound,
        "between": lambda: expected.between(0.5, bound + 1),
    }[kind]()
    made = made.per(*groups) if groups else made
    slack = draw(st.sampled_from([None, "penalty", "bound"]))
    if slack is not None:
        made = made.slack(**{slack: 1.5}, norm=draw(st.sampled_from(["l1", "l2", "linf"])))
    return made


@st.composite
def corpora(draw):
    lengths = tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=7)))
    n, n_tokens = len(lengths), sum(lengths)
    words = draw(st.lists(st.sampled_from(["u", "v", "w"]), min_size=n_tokens, max_size=n_tokens))
    documents = draw(st.lists(st.sampled_from(["d1", "d2", "d3"]), min_size=n, max_size=n))
    if draw(st.booleans()):
        documents.sort()
    topics = draw(st.lists(st.sampled_from([1.0, 2.0, np.nan]), min_size=n, max_size=n))
    plain = tagging(lengths)
    word, document = np.array(words, np.str_)[plain.columns["occurrence"]], np.array(documents)[plain.instance]
    structure = FakeStructure(n, plain.instance, plain.columns | {WORD: word, DOCUMENT: document})
    weights = np.array(draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=n, max_size=n)))
    ends = sorted(draw(st.lists(st.integers(0, n), max_size=4)))
    shards = cut(structure, np.array(topics)[plain.instance], weights, np.diff([0, *ends, n]).tolist())
    assume(all(len(own) == 0 or len(own) != shard.n_instances for shard, _, _, own in shards))  # or lengths fit twice
    return structure, {TOPIC: np.array(topics)[plain.instance]}, weights, shards


@given(corpora(), st.lists(constraints(), min_size=1, max_size=3, unique=True))
def test_rows_do_not_depend_on_how_a_corpus_is_cut(corpus, rules):
    structure, columns, weights, shards = corpus
    rules = [rule.named(f"rule {k}") for k, rule in enumerate(rules)]
    structures, extras, own_weights, _ = zip(*shards, strict=True)
    header, parts = compile_all(rules, structures, extras, own_weights)
    whole = compile_constraints(rules, structure, columns, weights)
    expected = rows_by_key(whole.matrix, whole.bounds, whole.blocks, np.arange(structure.n_unary))
    found = rows_of_shards(header, parts, shards)
    for name in (rule.name for rule in rules):  # a block without rows says nothing
        expected.setdefault((name, "groups"), set())
        found.setdefault((name, "groups"), set())
    assert_same(found, expected)


def at(document, per_row=2):
    return Categorical([per_row] * len(document)), {"document": np.array(document)}


def test_groups_inside_a_shard_are_its_own_and_others_span_shards():
    rule = (E[part("label") == 1] <= 0.5).per("document")
    structures, columns = zip(at(["a", "a", "b"]), at(["b", "c", "c"]), strict=True)
    header, (first, second) = compile_all(rule, structures, columns)
    assert header.blocks[0].keys["document"].tolist() == ["b"]
    assert header.blocks[0].scope == "corpus"
    assert [own.inside.blocks[0].keys["document"].tolist() for own in (first, second)] == [["a"], ["c"]]
    assert {own.inside.blocks[0].scope for own in (first, second)} == {"group"}
    assert first.inside.row_instance.tolist() == [-1]
    assert first.present.tolist() == second.present.tolist() == [0]
    assert first.matrix.toarray().tolist() == [[0, 0, 0, 0, 0, 1]]
    assert second.matrix.toarray().tolist() == [[0, 1, 0, 0, 0, 0]]


def test_whether_rows_split_into_groups_is_decided_by_the_whole_corpus():
    rule = (E[part("label") == 1] <= 0.5).per("mood")
    structures = [Categorical([2, 2]), Categorical([2])]
    columns = [{"mood": [1, 1, 2, 2]}, {"mood": [3, 4]}]  # constant inside the rows of the first shard only
    header, parts = compile_all(rule, structures, columns)
    assert header.blocks[0].keys["mood"].tolist() == [1, 2, 4]
    assert [len(own.inside.bounds) for own in parts] == [0, 0]
    assert compile_all(rule, structures[:1], columns[:1])[0].bounds.tolist() == []


@pytest.mark.parametrize(
    ("slack", "scope"),
    [
        ({"penalty": 1, "norm": "l1"}, "group"),
        ({"penalty": 1, "norm": "l2"}, "corpus"),
        ({"penalty": 1, "norm": "linf"}, "corpus"),
        ({"bound": 1, "norm": "linf"}, "group"),
        ({"bound": 1, "norm": "l1"}, "corpus"),
        ({"bound": 1, "norm": "l2"}, "corpus"),
    ],
)
def test_a_norm_over_all_groups_ties_them(slack, scope):
    rule = (E[part("label") == 1] <= 0.5).per("document").slack(**slack)
    structure, columns = at(["a", "b", "c"])
    block = compile_constraints(rule, structure, columns).blocks[0]
    assert block.scope == scope
    assert block.slack_group.tolist() == ([0, 1, 2] if scope == "group" else [0, 0, 0])
    header, _ = compile_all(rule, [structure], [columns])
    assert len(header.blocks) == (scope == "corpus")


def test_slack_groups_of_max_over_stay_with_their_group():
    rule = max_over("label", E[...].per("document")).penalty(1)
    structures, columns = zip(at(["a", "b"]), at(["b"]), strict=True)
    header, parts = compile_all(rule, structures, columns)
    assert header.blocks[0].slack_group.tolist() == [0, 0]
    assert [own.inside.blocks[0].keys["document"].tolist() for own in parts] == [["a", "a"], []]


def test_frequencies_inside_instances_count_the_corpus(make_tagging):
    rule = (E[VERB & (part("word_frequency") >= 3)] <= 0.5).per("sentence")
    shards, words = [make_tagging((2, 1)), make_tagging((1, 1))], [{"word": ["a", "b", "a"]}, {"word": ["a", "b"]}]
    _, parts = compile_all(rule, shards, words)
    assert [own.inside.matrix.nnz for own in parts] == [1, 1]


def test_facts_are_complete_in_one_pass_unless_rows_read_the_corpus(make_tagging):
    shards, words = [make_tagging((2, 1)), make_tagging((1, 1))], [{"word": ["a", "b", "a"]}, {"word": ["a", "b"]}]
    many = part("word_frequency") >= 3
    for rule, complete in (
        ((E[VERB & many] <= 0.5).per("sentence"), True),
        (E[VERB & many] <= 0.5, False),
        (E[part("sentence") == 2] <= 0.5, False),
        (E[VERB] <= 0.5 * E.count(..., each="occurrence"), True),
    ):
        facts = [facts_of(rule, shard, word) for shard, word in zip(shards, words, strict=True)]
        assert all(own.complete == complete for own in facts)
        assert sum(facts[1:], facts[0]).complete == complete
        if not complete:
            with pytest.raises(InvalidInputError, match="needs complete facts; find them again in every shard, given"):
                compile_shard(rule, sum(facts[1:], facts[0]), 0, shards[0], words[0])


def test_facts_add_up_in_any_order_of_brackets(make_tagging):
    rules = [(E[VERB] <= 1).per("word"), max_over("occurrence", E[VERB].per("word")).penalty(1), E[VERB] == 1]
    shards = [make_tagging(lengths) for lengths in ((1, 2), (1, 0), (3,))]
    words = [{"word": ["u", "v", "u"]}, {"word": ["w"]}, {"word": ["u", "w", "x"]}]
    one, two, three = (facts_of(rules, shard, word) for shard, word in zip(shards, words, strict=True))
    left, right = corpus_rows((one + two) + three), corpus_rows(one + (two + three))
    np.testing.assert_array_equal(left.bounds, right.bounds)
    for a, b in zip(left.blocks, right.blocks, strict=True):
        assert {name: values.tolist() for name, values in a.keys.items()} == {n: v.tolist() for n, v in b.keys.items()}


def test_facts_and_rows_travel(make_tagging):
    rules, shards = [(E[VERB] <= 1).per("tag"), (E[VERB] <= 1).per("sentence")], [make_tagging((2, 1))] * 2
    facts = add_up(rules, shards)[0]
    for value in (facts, compile_shard(rules, facts, 1, shards[1])):
        again = pickle.loads(pickle.dumps(value))
        assert pickle.dumps(again) == pickle.dumps(pickle.loads(pickle.dumps(again)))
    assert compile_shard(rules, pickle.loads(pickle.dumps(facts)), 1, shards[1]).present.tolist() == [0]


class ByLength:
    """Another constraint in shards of another size."""

    def rows(self, structure):
        return (E[...] <= structure.n_instances).named("by length")


class OwnKeys:
    """Rows that have the same keys, which only name them."""

    def rows(self, structure):
        matrix = np.stack([np.ones(structure.n_unary), np.arange(structure.n_unary)])
        rule = linear(matrix, [3, 4], name="own keys")
        return type(rule)(**(vars(rule) | {"keys": {"kind": np.array(["same", "same"])}}))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (linear(np.ones(4), 1), "'linear' names parts or rows of one batch by number, and the corpus is cut into sev"),
        (linear(np.eye(4), 1, scope="instance"), "'linear' names parts or rows of one batch"),
        (must_link([[0, 1]]), "'must link' names parts or rows of one batch by number"),
        (cannot_link(column="document"), "'cannot link by document' names parts or rows of one batch by number"),
        (
            ByLength(),
            r"'by length': rows\(structure\) must give the same constraint for every shard, got '.E",
        ),
        ((E[...] <= 1).per("mixed"), "column 'mixed' must be text in all shards or in none"),
    ],
)
def test_what_means_one_batch_is_refused_on_several(rule, message):
    n = 1 if isinstance(rule, ByLength) else 2
    structures = [Categorical([2, 2]), Categorical([2] * n)]
    columns = [{"document": [0, 0], "mixed": ["a", "b"]}, {"document": [0, 0][:n], "mixed": [1, 2][:n]}]
    assert compile_all(rule, structures[:1], columns[:1])
    with pytest.raises(InvalidInputError, match=message):
        compile_all(rule, structures, columns)


def test_rows_of_ones_own_are_matched_by_their_number():
    header, parts = compile_all(OwnKeys(), [Categorical([2]), Categorical([3])])
    assert header.bounds.tolist() == [3, 4]
    assert [own.present.tolist() for own in parts] == [[0, 1], [0, 1]]
    assert parts[1].matrix.toarray().tolist() == [[1, 1, 1], [0, 1, 2]]


def test_a_shard_in_which_a_column_is_all_missing_joins_those_with_text():
    rule = (E[...] <= 1).per("document")
    header, parts = compile_all(
        rule, [Categorical([1, 1]), Categorical([1]), Categorical([1])],
        [{"document": [None, None]}, {"document": ["a"]}, {"document": ["a"]}],
    )  # fmt: skip
    assert header.blocks[0].keys["document"].tolist() == ["a"]
    assert [own.present.tolist() for own in parts] == [[], [0], [0]]
