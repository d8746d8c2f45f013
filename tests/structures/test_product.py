import numpy as np
import pytest
from check_projection import check_projection

from spectrem.constraints import E, compile_constraints, compile_shard, corpus_rows, facts_of, part
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Alignment, Categorical, Chain, Parts, Product
from spectrem.testing.check_constraint import check_constraint


def directions(forward, backward):
    return Product({"forward": forward, "backward": backward}, name="direction")


def test_columns_of_the_two_directions_join():
    both = directions(Alignment([1], [2]), Alignment([2], [1], reverse=True))
    columns = both.columns
    assert list(columns) == ["sentence", "source", "target", "state", "direction"]
    assert columns["direction"].tolist() == ["forward"] * 4 + ["backward"] * 3
    assert columns["source"].tolist() == [0, -1, 0, -1, 0, 0, 0]
    assert columns["target"].tolist() == [0, 0, 1, 1, 0, 1, -1]
    assert columns["source"].dtype == np.int64
    assert both.missing("source").tolist() == [False, True, False, True, False, False, False]
    assert both.missing("direction") is None
    assert both.missing("sentence") is None


def test_columns_that_a_member_lacks_are_missing_there():
    mixed = Product({"class": Categorical([2, 1]), "tags": Chain([1, 1], 2)}, name="side")
    columns = mixed.columns
    assert list(columns) == ["instance", "label", "token", "occurrence", "tag", "side"]
    assert columns["instance"].tolist() == [0, 0, 1, 0, 0, 1, 1]
    assert columns["side"].tolist() == ["class"] * 3 + ["tags"] * 4
    np.testing.assert_array_equal(columns["label"], [0, 1, 0, np.nan, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(columns["tag"], [np.nan, np.nan, np.nan, 0, 1, 0, 1])
    assert mixed.missing("tag").tolist() == [True] * 3 + [False] * 4
    rules = [
        (E[...] <= 5).per("tag"),
        (E[part("label") == 0] <= E.count(part("tag") == 1)).per("instance"),
        (E[part("label") != 0] <= 5).per("occurrence"),
        E[...] <= E.count(..., each="label"),
    ]
    for rule in rules:
        check_constraint(rule, mixed)
    assert compile_constraints(rules[0], mixed).matrix.toarray().tolist() == [
        [0, 0, 0, 1, 0, 1, 0],
        [0] * 4 + [1, 0, 1],
    ]


def test_user_columns_of_occurrences_are_missing_where_there_are_none():
    mixed = Product({"class": Categorical([2, 1]), "tags": Chain([1, 2], 2)})
    rows = check_constraint((E[...] <= 5).per("word"), mixed, {"word": np.array(["a", "b", "a"])})
    assert rows.matrix.toarray().tolist() == [[0, 0, 0, 1, 1, 0, 0, 1, 1], [0] * 5 + [1, 1, 0, 0]]
    frequent = compile_constraints(E[part("word_frequency") == 2] <= 5, mixed, {"word": np.array(["a", "b", "a"])})
    assert frequent.matrix.toarray().tolist() == [[0, 0, 0, 1, 1, 0, 0, 1, 1]]


def test_views_are_a_corpus_constraint_and_their_labels_stay_apart():
    views = Product({"text": Categorical([2, 2]), "links": Categorical([2, 2]), "title": Categorical([1, 1])})
    rows = compile_constraints((E[...] <= 1).per("view"), views)
    assert [block.scope for block in rows.blocks] == ["corpus"]
    assert rows.matrix.toarray().sum(axis=1).tolist() == [4, 4, 2]
    assert [block.scope for block in compile_constraints((E[...] <= 1).per("instance"), views).blocks] == ["instance"]
    assert set(views.columns) == {"instance", "text_label", "links_label", "title_label", "view"}
    assert views.label_columns == ("text_label", "links_label", "title_label")
    with pytest.raises(
        InvalidInputError, match=r"there is no column 'label'; did you mean 'text_label'\? the columns are .*'"
    ):
        compile_constraints((E[...] <= 1).per("label"), views)


def test_labels_join_when_told_to():
    views = Product({"text": Categorical([2, 2]), "links": Categorical([2, 2])}, joined=["label"])
    assert views.columns["label"].tolist() == [0, 1] * 4
    text, links = (part("view") == name for name in ("text", "links"))
    agree = (E[text] == E[links]).per("instance", "label")
    found = check_projection(agree, views)
    assert all(result is not None for result in found.values())


def test_columns_of_one_name_and_different_kinds_are_refused():
    class Spelled(Chain):
        @property
        def columns(self):
            columns = super().columns
            return columns | {"token": columns["token"].astype(str)}

    one, other = Chain([1, 2], 2), Spelled([1, 2], 2)
    with pytest.raises(
        InvalidInputError, match=r"'token' holds numbers in 'a' and text in 'b'; keep them apart, as in"
    ):
        _ = Product({"a": one, "b": other}).columns
    apart = Product({"a": one, "b": other}, apart=["token"])
    assert apart.columns["b_token"].tolist()[-2:] == ["1", "1"]
    assert np.isnan(apart.columns["b_token"].tolist()[0])
    check_constraint((E[...] <= 5).per("b_token"), apart)


def test_tokens_of_different_sentences_are_refused():
    both = {"one": Chain([1, 2], 2), "other": Chain([2, 1], 2)}
    with pytest.raises(InvalidInputError, match=r"'occurrence' numbers different things in 'one' and 'other'"):
        _ = Product(both).columns
    columns = Product(both, apart=["occurrence", "token"]).columns
    assert list(columns) == ["sentence", "one_token", "one_tag", "other_token", "other_tag", "view"]


def test_a_name_for_two_columns_is_refused():
    with pytest.raises(InvalidInputError, match=r"'instance' of 'label' would be called 'label', which is the name"):
        _ = Product(
            {"class": Categorical([1]), "tags": Chain([1], 2), "label": Categorical([2])}, owners={"label": [0]},
            joined=["label"],
        ).columns  # fmt: skip


def sentences():
    """Two sentences with a kind, three entities and the two ordered pairs of those of the first sentence."""
    members = {"kind": Categorical([2, 2]), "entity": Categorical([2, 2, 2]), "pair": Categorical([3, 3])}
    return Product(members, owners={"entity": [1, 0, 0], "pair": [0, 0]})


def test_several_labelled_variables_per_instance():
    both = sentences()
    columns = both.columns
    assert list(columns) == ["instance", "kind_label", "entity", "entity_label", "pair", "pair_label", "view"]
    assert columns["instance"].tolist() == [0, 0, 1, 1, 1, 1, 0, 0, 0, 0] + [0] * 6
    np.testing.assert_array_equal(columns["entity"], [np.nan] * 4 + [0, 0, 0, 0, 1, 1] + [np.nan] * 6)
    np.testing.assert_array_equal(columns["pair"], [np.nan] * 10 + [0, 0, 0, 1, 1, 1])
    rows = check_constraint((E[part("entity_label") == 1] <= 1).per("instance"), both)
    assert rows.blocks[0].scope == "instance"
    assert rows.row_instance.tolist() == [0, 1]
    each = check_constraint((E[part("entity_label") == 1] <= 1).per("instance", "entity"), both)
    assert each.row_instance.tolist() == [0, 0, 1]


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_values_add_up_by_owner(gamma):
    both = sentences()
    scores = Parts(np.random.default_rng(0).normal(size=both.n_unary))
    kind, entity, pair = (
        member.smoothed_max(share, gamma)
        for member, share in zip(both.members.values(), both.split(scores), strict=True)
    )
    values, marginals = both.smoothed_max(scores, gamma)
    (k0, k1), (e0, e1, e2) = kind[0], entity[0]
    np.testing.assert_allclose(values, [k0 + e1 + e2 + pair[0].sum(), k1 + e0])
    np.testing.assert_array_equal(marginals.unary, np.concatenate([own.unary for _, own in (kind, entity, pair)]))


def test_rules_on_sub_units_do_not_depend_on_shards():
    members = {"kind": Categorical([2]), "entity": Categorical([2, 2])}
    one = Product(members, owners={"entity": [0, 0]})
    two = Product({"kind": Categorical([2, 2]), "entity": Categorical([2] * 4)}, owners={"entity": [0, 0, 1, 1]})
    rules = [(E[part("entity_label") == 0] <= 1.5).per("entity"), (E[...] <= 9).per("view")]
    facts = facts_of(rules, one) + facts_of(rules, one)
    assert corpus_rows(facts).bounds.tolist() == [1.5, 1.5, 9, 9]
    total = np.zeros(4)
    for number in range(2):
        shard = compile_shard(rules, facts, number, one)
        total[shard.present] += shard.matrix.toarray().sum(axis=1)
    np.testing.assert_array_equal(total, compile_constraints(rules, two).matrix.toarray().sum(axis=1))


def test_relations_between_sub_units_are_constraints():
    # A pair is of relation 1 only where both its entities have label 1 ([RothYih2004] 4): rows of one instance.
    both = sentences()
    pair_is = (part("pair_label") == 1) & (part("pair") == 0)
    rules = [(E[pair_is] <= E[(part("entity") == one) & (part("entity_label") == 1)]).per("instance") for one in (0, 1)]
    found = check_projection(rules, both)
    assert all(result is not None for result in found.values())


def test_split_and_join_are_inverse():
    both = directions(Chain([1], 2), Alignment([1], [2], max_jump=1))
    rng = np.random.default_rng(0)
    parts = Parts(rng.normal(size=both.n_unary), tuple(rng.normal(size=s) for s in both.factor_shapes))
    left, right = both.split(parts)
    assert left.unary.shape == (2,)
    assert [f.shape for f in right.factors] == [(3,), (2, 2), (2,)]
    again = both.join(left, right)
    np.testing.assert_array_equal(again.unary, parts.unary)
    assert [f.shape for f in again.factors] == list(both.factor_shapes)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_an_impossible_side_makes_the_instance_impossible(gamma):
    both = Product({"tags": Chain([2, 2], 2), "class": Categorical([0, 1])})
    values, marginals = both.smoothed_max(Parts(np.zeros(9), (np.zeros((2, 2)),)), gamma)
    assert values[0] == -np.inf
    assert np.isfinite(values[1])
    assert not marginals.unary[:4].any()
    assert marginals.factors[0].sum() == 1.0


def test_decode_is_all_in_turn():
    both = Product({"links": Alignment([1], [2]), "class": Categorical([3])})
    scores = Parts(np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]))
    assert both.decode(scores).tolist() == [0, -1, 2]


def test_different_batches_are_refused():
    with pytest.raises(
        InvalidInputError, match=r"same instances; got \{'a': 1, 'b': 2\}; build all from the same batch"
    ):
        Product({"a": Categorical([1]), "b": Categorical([1, 1])})
    with pytest.raises(InvalidInputError, match=r"same instances; got none; .* say n_instances where every member has"):
        Product({"a": Categorical([1])}, owners={"a": [0]})


@pytest.mark.parametrize("owner", [[0], [0, 2], [0, -1], [0, 1, 1]])
def test_bad_owners_are_refused(owner):
    with pytest.raises(InvalidInputError, match=r"owners\['b'\] must have an instance in 0\.\.1 for each of 2; got"):
        Product({"a": Categorical([1, 1]), "b": Categorical([1, 1])}, owners={"b": owner})


@pytest.mark.parametrize(("keys", "name"), [([], "view"), ([""], "view"), ([1], "view"), (["a"], "")])
def test_bad_names_are_refused(keys, name):
    with pytest.raises(InvalidInputError, match=r"members and name must be non-empty strings"):
        Product(dict.fromkeys(keys, Categorical([1])), name)
    with pytest.raises(InvalidInputError, match=r"owners must name members, \['a'\]; got \['b'\]"):
        Product({"a": Categorical([1])}, owners={"b": [0]})
