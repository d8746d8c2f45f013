import numpy as np
import pytest
import scipy.sparse as sp
from shard_helpers import compile_all, spread_out

from spectrem.constraints import (
    E,
    agreement,
    compile_constraints,
    fertility,
    linear,
    max_over,
    part,
    row_text,
)
from spectrem.exceptions import InvalidInputError
from spectrem.testing.check_constraint import check_constraint

VERB = part("tag") == "VERB"
WORDS = np.array(["a", "run", "a", "run", "a", "walk"])  # of the six tokens of `sentences`
SHARDS = ((3, 2), (0, 3, 2), (4,))


@pytest.mark.parametrize(
    "constraint",
    [
        (E[VERB] >= 1).per("sentence"),
        (E[...] == 1).per("sentence", "token"),
        (E[VERB].per("tag", "sentence") <= 0.5).slack(penalty=2),
        E[VERB].between(1, 3).slack(bound=0.5, norm="l1"),
        E[VERB].between(0.5, 2 * E[part("tag") == "ADJ"]).per("sentence"),
        (E[VERB] >= 0.1 * E.count(...) - 1).per("word"),
        (E[part("tag").isin(["VERB", "ADJ"])] <= E[part("tag") == "NOUN"] - 0.25).per("word", "sentence"),
        E[(part("token") + 1) / 2] - E[1 * part("token")] + E.count(VERB) == 2,
        (E[part("weight") - 1] >= part_count) if (part_count := 0.25 * E.count(part("weight"))) else None,
        max_over("occurrence", E[...].per("word", "tag")).penalty(32),
        max_over("occurrence", E[part("frequency") >= 3].per("word", "tag")).penalty(32),
        max_over("sentence", E[VERB].per("word")).penalty(1),
        max_over("token", E[VERB] - 0.1).penalty(1),
        max_over("token", E[VERB].per("sentence", "tag")).penalty(1),
        E[VERB] <= 0.2 * E.count(..., each="occurrence"),
        (E[VERB] >= 0.2 * E.count(VERB | (part("tag") == "ADJ"), each="occurrence") - 1).per("word"),
        E[VERB] / E.count(...) <= 0.2,
        (E[VERB] / E.count(part("word") == "a") >= 0.2).per("sentence"),
        (E[VERB] / E.count(part("word") == "run")).per("word", "tag").between(0.1, 0.5),
        ((E[VERB] - 2 * E.count(part("weight"))) / E.count(..., each="word") - E[...] == 1).per("sentence", "token"),
        E[VERB] / (4 * E.count(part("weight") > 0)) + E[part("weight")] / E.count(..., each="word")
        <= "20%" * E.count(...),
        (E[VERB & (part("word") == "a")] / E.count(part("word") == "a") == E[VERB] / E.count(...)).slack(penalty=3),
        max_over("occurrence", (E[...] / E.count(...)).per("word", "tag")).penalty(32),
        (E[~part("tag").allowed_by(part("word"), {"a": ["ADJ"], "walk": ["VERB", "NOUN"]})] <= 0).per("word"),
    ],
    ids=repr,
)
def test_equals_evaluation_part_by_part(sentences, constraint):
    extra = {
        "word": WORDS,
        "frequency": np.array([3, 2, 3, 2, 3, 1]),
        "weight": np.linspace(-1, 2, sentences.n_unary),
    }
    check_constraint(constraint, sentences, extra)


@pytest.mark.parametrize(
    "constraint",
    [
        (E[part("source") != -1] <= 1).per("sentence", "source"),
        agreement(),
        agreement().slack(penalty=1, norm="linf"),
        fertility(1),
        fertility(2, 0.5),
        fertility(None, 1),
        (E[part("direction") == "forward"] >= 1).per("target", "sentence"),
    ],
    ids=repr,
)
def test_alignments_equal_evaluation_part_by_part(links, constraint):
    rows = check_constraint(constraint, links)
    assert rows.blocks[0].scope == "instance"


def test_one_verb_per_sentence(sentences):
    rows = compile_constraints((E[VERB] >= 1).per("sentence"), sentences)
    expected = np.zeros((3, sentences.n_unary))
    for row, sentence in enumerate((0, 1, 3)):
        expected[row, (sentences.instance == sentence) & (sentences.columns["tag"] == "VERB")] = -1
    assert np.array_equal(rows.matrix.toarray(), expected)
    assert rows.bounds.tolist() == [-1, -1, -1]
    assert rows.row_instance.tolist() == [0, 1, 3]
    (block,) = rows.blocks
    assert (block.start, block.stop, block.equality, block.scope, block.slack) == (0, 3, False, "instance", None)
    assert block.keys["sentence"].tolist() == [0, 1, 3]
    assert block.slack_group.tolist() == [0, 1, 2]


def test_a_group_without_any_matching_part_keeps_its_row_and_is_named(sentences):
    rows = compile_constraints((E[VERB] >= 1).per("sentence").named("one verb per sentence"), sentences)
    assert np.diff(rows.matrix.indptr).tolist() == [3, 2, 0]
    assert row_text(rows, 2) == "'one verb per sentence' in sentence 3"


def test_rows_that_always_hold_are_left_out(sentences):
    nothing = part("tag") == "X"
    for vacuous in (E[nothing] <= 0, E[nothing] >= -1, E[nothing] == 0, E[nothing].between(-1, 2)):
        assert compile_constraints(vacuous.per("sentence"), sentences).matrix.shape == (0, sentences.n_unary)
        assert compile_constraints(vacuous, sentences).matrix.shape == (0, sentences.n_unary)
    for impossible in (E[nothing] <= -1, E[nothing] >= 1, E[nothing] == 1):
        assert compile_constraints(impossible.per("sentence"), sentences).matrix.shape[0] == 3
        assert compile_constraints(impossible, sentences).matrix.shape[0] == 1


def test_null_belongs_to_no_group(links):
    rows = compile_constraints((E[...] <= 1).per("sentence", "source"), links)
    assert rows.blocks[0].keys["source"].min() == 0
    agree = compile_constraints(agreement(), links)
    null = (links.columns["source"] == -1) | (links.columns["target"] == -1)
    assert agree.matrix.tocsc()[:, null].nnz == 0
    assert (abs(agree.matrix).sum(axis=1) == 2).all()
    assert (agree.matrix.sum(axis=1) == 0).all()
    assert agree.matrix.shape[0] == 2 * 1 + 1 * 2 + 3 * 2


def test_fertility_bounds_the_chosen_side_of_each_direction(links):
    rows = compile_constraints(fertility(1), links)
    source, target, direction = (links.columns[name] for name in ("source", "target", "direction"))
    for row in range(rows.matrix.shape[0]):
        keys = {name: values[row] for name, values in rows.blocks[0].keys.items()}
        chosen = source if keys["direction"] == "forward" else target
        same = (links.instance == keys["sentence"]) & (direction == keys["direction"]) & (chosen == keys["state"])
        assert np.array_equal(rows.matrix[[row]].toarray()[0], same.astype(float))
    assert rows.matrix.shape[0] == (2 + 1 + 3) + (1 + 2 + 2)


def test_between_has_upper_rows_and_then_lower_ones(sentences):
    rows = compile_constraints(E[VERB].between(1, 2).per("sentence").slack(penalty=1), sentences)
    assert rows.blocks[0].keys["sentence"].tolist() == [0, 1, 0, 1, 3]
    assert rows.bounds.tolist() == [2, 2, -1, -1, -1]
    assert rows.blocks[0].slack_group.tolist() == [0, 1, 0, 1, 2]
    assert np.array_equal(rows.matrix[[0, 1]].toarray(), -rows.matrix[[2, 3]].toarray())


def test_rows_are_sorted_by_instance_whatever_the_order_of_per(links):
    rows = compile_constraints((E[...] <= 1).per("source", "sentence"), links)
    assert (np.diff(rows.row_instance) >= 0).all()
    assert list(rows.blocks[0].keys) == ["source", "sentence"]


def test_slack_groups_of_max_over_are_its_groups(sentences):
    rows = compile_constraints(
        max_over("occurrence", E[...].per("word", "tag")).penalty(32), sentences, {"word": WORDS}
    )
    (block,) = rows.blocks
    assert (block.scope, block.slack.kind, block.slack.norm, block.slack.strength) == ("corpus", "penalty", "linf", 32)
    assert len(rows.bounds) == sentences.n_unary
    assert not rows.bounds.any()
    pairs = list(zip(block.keys["word"], block.keys["tag"], strict=True))
    assert block.slack_group.tolist() == [sorted(set(pairs)).index(pair) for pair in pairs]


def test_max_over_instances_is_a_constraint_on_the_corpus(sentences):
    rows = compile_constraints(max_over("sentence", E[VERB].per("tag")).penalty(1), sentences)
    assert rows.blocks[0].scope == "corpus"
    assert rows.blocks[0].slack_group.tolist() == [0, 0]
    inside = compile_constraints(max_over("token", E[VERB].per("sentence")).penalty(1), sentences)
    assert inside.blocks[0].scope == "instance"
    assert inside.blocks[0].slack_group.tolist() == [0, 0, 0, 1, 1]


def test_several_constraints_stack_in_order(sentences):
    U = sp.csr_array(np.eye(sentences.n_unary))
    rows = compile_constraints([E[VERB] <= 1, linear(U, 0.5, ">="), (E[...] <= 9).per("sentence")], sentences)
    assert [(block.start, block.stop) for block in rows.blocks] == [(0, 1), (1, 1 + U.shape[0]), (18, 21)]
    assert rows.matrix.shape == (21, sentences.n_unary)
    assert (rows.bounds[1:18] == -0.5).all()
    assert (rows.matrix[1:18].toarray() == -np.eye(17)).all()
    assert rows.row_instance.tolist() == [-1] * 18 + [0, 1, 3]


def test_nothing_to_compile(sentences, make_tagging, make_structure):
    assert compile_constraints([], sentences).matrix.shape == (0, sentences.n_unary)
    names = ("sentence", "token", "occurrence", "tag")
    empty = make_structure(2, np.zeros(0, np.int64), dict.fromkeys(names, np.zeros(0, np.int64)))
    for constraint in ((E[...] >= 1).per("sentence"), max_over("token", E[...].per("tag")).penalty(1), E[...] <= 1):
        assert check_constraint(constraint, empty).matrix.shape == (0, 0)
    assert check_constraint(E[...] >= 1, empty).bounds.tolist() == [-1]


def test_extra_columns_by_part_instance_and_occurrence(sentences):
    by_occurrence = np.arange(6) % 2 == 0
    by_instance = np.array([True, False, True, False])
    by_part = np.arange(17) < 5
    values = {"o": by_occurrence, "i": by_instance, "p": by_part}
    expected = {"o": by_occurrence[sentences.columns["occurrence"]], "i": by_instance[sentences.instance], "p": by_part}
    for name, weights in expected.items():
        rows = compile_constraints(E[part(name)] <= 1, sentences, values)
        assert np.array_equal(rows.matrix.toarray()[0], weights)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.uint64, np.float32])
def test_weights_of_every_kind_of_number(sentences, dtype):
    weights = np.array([1, 0, 1, 1], dtype=dtype)
    rows = compile_constraints(-300 * E[part("x")] + 0.5 * E.count(part("x")) <= 1, sentences, {"x": weights})
    assert rows.matrix.data.tolist() == [-300] * 11
    assert rows.bounds.tolist() == [1 - 0.5 * 4]  # of the four tokens of sentences of weight 1


@pytest.mark.parametrize("dtype", [object, str, np.dtypes.StringDType()])
def test_text_columns_of_every_kind(sentences, dtype):
    document = np.array(["b", "a", "b", "a"], dtype=dtype)
    rows = compile_constraints((E[...] <= 1).per("document"), sentences, {"document": document})
    assert rows.blocks[0].keys["document"].tolist() == ["a", "b"]


def test_missing_values_of_a_user_belong_to_no_group_but_minus_one_is_a_value(sentences):
    extra = {"score": [1.0, np.nan, 2.0, np.nan], "mood": [-1, 0, 1, -1]}
    rows = check_constraint((E[...] <= 1).per("score"), sentences, extra)
    assert rows.blocks[0].keys["score"].tolist() == [1.0]
    assert check_constraint((E[...] <= 1).per("mood"), sentences, extra).blocks[0].keys["mood"].tolist() == [-1, 0]


def test_a_length_that_fits_twice_is_refused_unless_it_means_the_same(make_tagging):
    same = make_tagging((1, 1, 1))
    assert compile_constraints(E[part("x")] <= 1, same, {"x": [1, 2, 3]}).matrix.data.tolist() == [
        1,
        1,
        1,
        2,
        2,
        2,
        3,
        3,
    ]
    with pytest.raises(InvalidInputError, match="fits more than one of 8 parts, 3 instances, 3 occurrences; spread"):
        compile_constraints(E[part("x")] <= 1, make_tagging((0, 2, 1)), {"x": [1, 2, 3]})


class NoLongSentences:
    def rows(self, structure):
        long = np.bincount(structure.instance, minlength=structure.n_instances) > 6
        return linear(long[structure.instance].astype(float), 2, name="no long sentences")


class PerSentence:
    def rows(self, structure):
        return (E[...] <= 1).per(next(iter(structure.columns)))


def test_a_constraint_of_ones_own(sentences):
    rows = check_constraint(NoLongSentences(), sentences)
    assert rows.matrix.sum() == 9
    assert row_text(rows, 0) == "'no long sentences' in row 0"
    assert check_constraint(PerSentence(), sentences).row_instance.tolist() == [0, 1, 3]


def test_linear_of_instance_scope(sentences):
    U = sp.csr_array(([1.0, 1, 2], ([0, 0, 1], [0, 2, 9])), shape=(2, 17))
    rows = check_constraint(linear(U, [1, 2], "==", scope="instance").slack(bound=1, norm="l1"), sentences)
    assert rows.row_instance.tolist() == [0, 1]
    assert rows.blocks[0].equality
    assert rows.blocks[0].slack_group.tolist() == [0, 1]


def test_linear_leaves_stored_zeros_and_duplicates_out():
    constraint = linear(sp.csr_array(([0.0, 1, 2], [0, 1, 1], [0, 3]), shape=(1, 3)), 1)
    assert constraint.matrix.nnz == 1
    assert constraint.matrix.data.tolist() == [3]


def test_linear_does_not_change_the_matrix_it_is_given():
    U = sp.csr_array(([0.0, 1, 2], [0, 1, 1], [0, 3]), shape=(1, 3))
    linear(U, 1)
    assert U.nnz == 3


@pytest.mark.parametrize(
    "constraint",
    [
        E[VERB].between(0.1 * E.count(...), 3),
        (E[VERB] >= E.count(part("tag") == "NOUN") - 2).per("token"),
        (E[VERB] <= E.count(part("tag") == "ADJ")).per("word"),
        (E[VERB] == 1).per("tag"),
        (E[VERB] <= 1).per("tag").slack(penalty=1),
        max_over("occurrence", E[...].per("word", "tag")).penalty(32),
        max_over("sentence", E[VERB].per("word")).penalty(1),
        (E[...] <= 1).per("sentence"),
        E[VERB] >= 0.1 * E.count(..., each="occurrence"),
        E[part("word_frequency") >= 4] <= 2,
        max_over("occurrence", E[part("word_frequency") >= 4].per("word", "tag")).penalty(2),
    ],
    ids=repr,
)
def test_shards_together_equal_one_batch(make_tagging, constraint):
    shards = [make_tagging((*lengths, 1)) for lengths in SHARDS]
    words = [np.array(["u", "v", "w"])[np.arange(sum(lengths) + 1) % (k + 1)] for k, lengths in enumerate(SHARDS)]
    header, parts = compile_all(constraint, shards, [{"word": word} for word in words])

    first_sentence = np.cumsum([0, *(shard.n_instances for shard in shards)])
    first_token = np.cumsum([0, *(len(word) for word in words)])
    columns = {
        name: np.concatenate(
            [shard.columns[name] + (offset[k] if offset is not None else 0) for k, shard in enumerate(shards)]
        )
        for name, offset in (("sentence", first_sentence), ("token", None), ("occurrence", first_token))
    }
    columns["tag"] = np.concatenate([shard.columns["tag"] for shard in shards])
    whole_structure = type(shards[0])(int(first_sentence[-1]), columns["sentence"], columns)
    whole = compile_constraints(constraint, whole_structure, {"word": np.concatenate(words)})

    if whole.blocks[0].scope == "corpus":
        spread = [spread_out(own, len(header.bounds)) for own in parts]
        assert np.array_equal(np.hstack(spread), whole.matrix.toarray())
        assert np.allclose(header.bounds, whole.bounds)
        assert np.array_equal(header.blocks[0].slack_group, whole.blocks[0].slack_group)
        for name, values in whole.blocks[0].keys.items():
            assert np.array_equal(header.blocks[0].keys[name], values)
        assert not any(len(own.inside.bounds) for own in parts)
    else:
        inside = [own.inside for own in parts]
        assert np.array_equal(sp.block_diag([rows.matrix for rows in inside]).toarray(), whole.matrix.toarray())
        assert np.concatenate([rows.blocks[0].keys["sentence"] for rows in inside]).tolist() == (
            whole.blocks[0].keys["sentence"].tolist()
        )


def test_counts_over_the_corpus_take_instances_by_weight(make_tagging):
    shards, weights = [make_tagging((3, 2)), make_tagging((1,))], [np.array([2.0, 0.5]), np.array([3.0])]
    constraints = [E[VERB] >= 0.1 * E.count(..., each="occurrence"), (E[VERB] >= E.count(VERB)).per("sentence")]
    header, parts = compile_all(constraints, shards, weights=weights)
    assert header.bounds.tolist() == pytest.approx([-0.1 * (2 * 3 + 0.5 * 2 + 3)])
    assert [rows.inside.bounds.tolist() for rows in parts] == [[-3], []]


def test_weights_count_instances_as_if_repeated(make_tagging):
    batch, repeated = make_tagging((3, 2)), make_tagging((3, 3, 2))
    constraints = [E[VERB] >= 0.1 * E.count(..., each="occurrence"), (E[VERB] >= E.count(VERB)).per("sentence")]
    weighted = compile_constraints(constraints, batch, weights=np.array([2.0, 1.0]))
    copies = compile_constraints(constraints, repeated)
    assert weighted.bounds[[0, 1, 1]].tolist() == pytest.approx(copies.bounds.tolist())
    plain = compile_constraints(constraints, batch)
    np.testing.assert_array_equal(weighted.matrix.toarray(), plain.matrix.toarray())
    assert plain.bounds[0] != weighted.bounds[0]


def test_lists_inside_lists(sentences):
    nested = [[E[VERB] <= 1, (E[...] <= 9).per("sentence")], (E[VERB] >= 0.5,)]
    assert len(compile_constraints(nested, sentences).blocks) == 3


def test_frequencies_count_occurrences_of_the_corpus(make_tagging, make_structure):
    shards = [make_tagging((2,)), make_tagging((2, 1))]
    extra = [{"word": ["a", "b"]}, {"word": ["a", "a", "c"]}]
    _, rows = compile_all(E[part("word_frequency")] <= 1, shards, extra)
    assert [shard.matrix.toarray()[0].tolist() for shard in rows] == [[3, 3, 1, 1], [3, 3, 3, 3, 3, 3, 1, 1]]
    own = compile_constraints(E[part("word_frequency")] <= 1, shards[0], {**extra[0], "word_frequency": [7, 5]})
    assert own.matrix.data.tolist() == [7, 7, 5, 5]
    labels = make_structure(2, np.array([0, 0, 1]), {"instance": np.array([0, 0, 1]), "label": np.array([0, 1, 0])})
    with pytest.raises(InvalidInputError, match="no column 'label_frequency', and the structure has no occurrences to"):
        compile_constraints(E[part("label_frequency")] <= 1, labels)
    with pytest.raises(InvalidInputError, match="there is no column 'form_frequency'"):
        compile_constraints(E[part("form_frequency")] <= 1, shards[0])


def test_own_rows_over_shards_need_the_same_bounds(make_tagging):
    shards = [make_tagging((3, 2)), make_tagging((1,))]
    header, parts = compile_all(NoLongSentences(), shards)
    assert [rows.matrix.sum() for rows in parts] == [9, 0]
    assert header.bounds.tolist() == [2]

    class ByShard:
        def rows(self, structure):
            return linear(np.ones(structure.n_unary), structure.n_instances, name="by shard")

    with pytest.raises(InvalidInputError, match="'by shard': rows over the corpus need the same bounds b in every"):
        compile_all(ByShard(), shards)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (E[part("verb")] <= 1, "no column 'verb'; the columns are 'sentence', 'token', 'occurrence', 'tag', 'short', "),
        ((E[VERB] <= 1).per("document"), "no column 'document'; the columns are 'sentence', 'token'"),
        (max_over("time", E[VERB]).penalty(1), "no column 'time'"),
        (E[part("short")] <= 1, "'short' has 2 values, and the batch has 17 parts, 4 instances, 6 occurrences; give"),
        (E[part("flat")] <= 1, r"extra column 'flat' is a matrix of shape \(2, 2\), and the batch has"),
        (
            E[part("cube")] <= 1,
            r"extra column 'cube' must have one dimension, or be a matrix of numbers with .* \(2, 2, 2\)",
        ),
        (
            (E[...] <= 1).per("mixed"),
            "'mixed' must hold numbers, truth values, text or dates, got text beside other values",
        ),
        (E[part("nan")] <= 1, r'weights must be finite, and part\("nan"\) is nan on part 9; replace missing values'),
        (E[1 / part("token")] <= 1, r"weights must be finite, and 1 / part\(\"token\"\) is inf on part 0"),
        (E[part("tag")] <= 1, r'part\("tag"\) is text, not a weight; compare it, as in E\[part\("tag"\) == "VERB"\]'),
        (E[part("token")] <= 1, r'part\("token"\) holds labels or positions, not weights; compare it, as in'),
        (E[part("token") == "first"] <= 1, "compares numbers with text"),
        (max_over("token", E[VERB]), r"expected constraints, got max_over\(.*; finish it with .penalty\(strength\)"),
        (E[VERB], r"expected constraints, got E\[part.*; compare E\[...\] with a bound"),
        (linear(np.ones(3), 1), "'linear': U has 3 columns, and the batch has 17 unary parts; give one column per"),
        (linear(np.ones(17), 1, scope="instance"), 'row 0 of U touches instances 0 and 1; use scope="corpus"'),
        (linear(np.zeros(17), 1, scope="instance"), "row 0 of U is empty, so it is in no instance; leave it out"),
    ],
)
def test_errors(sentences, constraint, message):
    extra = {
        "short": [1, 2],
        "flat": np.eye(2),
        "cube": np.ones((2, 2, 2)),
        "mixed": ["a", 1, "b", "c"],
        "nan": [1, np.nan, 1, 1],
    }
    with pytest.raises(InvalidInputError, match=message):
        compile_constraints([constraint], sentences, extra)


def test_extra_columns_take_the_place_of_the_structures(sentences):
    names = np.where(sentences.columns["tag"] == "VERB", "V", "other")
    rows = check_constraint((E[part("tag") == "V"] <= 1).per("sentence"), sentences, {"tag": names})
    assert rows.matrix.sum() == 5
    numbered = check_constraint((E[VERB] <= 1).per("sentence"), sentences, {"sentence": [12, 10, 11, 7]})
    assert numbered.blocks[0].scope == "instance"
    assert row_text(numbered, 0) == f"{numbered.blocks[0].name!r} in sentence 10"
    for name, values in (("sentence", [12, 12, 10, 7]), ("occurrence", np.arange(6) // 2)):
        with pytest.raises(InvalidInputError, match=f"extra column '{name}' takes the place of .* must number the"):
            compile_constraints(E[VERB] <= 1, sentences, {name: values})


def test_row_text_of_the_corpus(sentences):
    rows = compile_constraints([(E[VERB] <= 1).named("few"), (E[...] <= 1).per("tag").named("each")], sentences)
    assert [row_text(rows, row) for row in range(4)] == [
        "'few'",
        "'each' in tag \"ADJ\"",
        "'each' in tag \"NOUN\"",
        "'each' in tag \"VERB\"",
    ]


def make_agreement(make_structure, n, length=29):
    """The structure of n sentence pairs of so many words on both sides."""
    sentence, position, chosen = (index.ravel() for index in np.indices((n, length, length + 1)))
    chosen = np.where(chosen == length, -1, chosen)
    columns = {
        "sentence": np.concatenate([sentence, sentence]),
        "source": np.concatenate([chosen, position]),
        "target": np.concatenate([position, chosen]),
        "direction": np.repeat(["forward", "backward"], len(sentence)),
    }
    return make_structure(n, columns["sentence"], columns)


def test_agreement_on_many_cells_compiles_without_a_loop_over_them(make_structure, python_steps):
    few, many = make_agreement(make_structure, 2), make_agreement(make_structure, 200)
    rows = compile_constraints(agreement(), many)
    assert rows.matrix.shape == (200 * 29 * 29, 2 * 200 * 29 * 30)
    compile_constraints(agreement(), few)
    steps = [python_steps(lambda s=s: compile_constraints(agreement(), s)) for s in (few, many)]
    assert steps[1] < steps[0] + 100
