"""Parsers learnt across bitext, generative and discriminative."""

import numpy as np
import pytest

from spectrem import DependencyModel, E, EdgeFactoredParser, part
from spectrem.data import Links, ParsedSentence
from spectrem.estimators.transfer import conservation, conserved_share, few_children, transfer_parser
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError

# Source: determiner, noun, verb. In the target the noun comes before its determiner, and the verb first.
SOURCE_HEADS = [[1, 2, -1], [1, -1], [1, 2, -1, 2]] * 4
TARGET = [["VERB", "NOUN", "DET"], ["VERB", "NOUN"], ["VERB", "NOUN", "DET", "ADV"]] * 4
LINKS = Links.from_pairs([[(0, 2), (1, 1), (2, 0)], [(0, 1), (1, 0)], [(0, 2), (1, 1), (2, 0), (3, 3)]] * 4)
TREES = [[-1, 0, 1], [-1, 0], [-1, 0, 1, 0]] * 4


def sentences(tags):
    return [ParsedSentence(tuple(f"{tag}-{k % 3}" for tag in own), tuple(own), ("_",) * len(own))
            for k, own in enumerate(tags)]  # fmt: skip


def grammar(**settings):
    return DependencyModel(n_threads=1, max_iter=4, tol=0.0, **settings)


def parser(**settings):
    return EdgeFactoredParser(bits=10, min_count=1, passes=4, n_threads=1, **settings)


def trees_of(found):
    return [own.tolist() for own in found]


@pytest.mark.parametrize(("make", "target"), [(grammar, TARGET), (parser, sentences(TARGET))])
def test_trees_conserve_the_arcs_of_the_source(make, target):
    found = transfer_parser(make(), SOURCE_HEADS, target, LINKS, share=1.0)
    assert trees_of(found.parser.predict(target)) == TREES
    assert (found.share, found.trials) == (1.0, [])
    assert conserved_share(TREES, found.conserved) == 1.0


def test_it_is_training_under_the_constraint_by_hand():
    by_hand = grammar(constraints=[conservation(0.7)])
    found = transfer_parser(grammar(), SOURCE_HEADS, TARGET, LINKS, share=0.7)
    by_hand.fit(TARGET, columns={"conserved": found.conserved})
    assert found.parser.objective_ == by_hand.objective_
    np.testing.assert_array_equal(found.parser.choose_, by_hand.choose_)


def test_known_constraints_and_those_of_unaligned_words_hold_too():
    few = E[part("root") & (part("dependent_tag") == "ADV")] <= 0
    settings = {"constraints": [few.per("sentence")]}
    found = transfer_parser(
        grammar(**settings), SOURCE_HEADS, TARGET, LINKS, share=0.8, unaligned_children=1
    )  # fmt: skip
    assert found.parser.constraints == [few.per("sentence"), conservation(0.8), few_children(1)]


def test_an_unaligned_word_keeps_few_children():
    links = Links.from_pairs([[(0, 0)]] * 3)
    target = [["X", "Y", "Z"]] * 3
    columns = {"aligned": [np.array([True, False, True])] * 3}
    found = transfer_parser(grammar(), [[-1]] * 3, target, links, share=0.1, unaligned_children=0.2)
    posteriors = found.parser.set_params(project_at_predict=True).predict_proba(
        target, columns={"conserved": found.conserved, **columns}
    )
    for own in posteriors:
        assert own[:, 1].sum() - own[1, 1] <= 0.2 + 1e-6


@pytest.mark.parametrize(("make", "target"), [(grammar, TARGET), (parser, sentences(TARGET))])
def test_a_start_is_used_and_left_as_it_was(make, target):
    start = make().fit(*(([own._replace(heads=np.array(t)) for own, t in zip(target, TREES, strict=True)],)
                         if make is parser else (target, TREES)))  # fmt: skip
    before = repr(start.get_params(deep=False))
    none = Links.from_pairs([[(0, 1), (1, 0)] if n == 1 else [] for n in range(len(TARGET))])
    found = transfer_parser(make(), SOURCE_HEADS, target, none, share=0.5, start=start)
    assert trees_of(found.parser.predict(target)) == TREES
    assert repr(start.get_params(deep=False)) == before


@pytest.mark.parametrize(("make", "target"), [(grammar, TARGET), (parser, sentences(TARGET))])
def test_labelled_sentences_are_trained_on_with_their_weight(make, target):
    links = Links.from_pairs([[(0, 1), (1, 0)] if n == 1 else [] for n in range(len(TARGET))])
    other = [[-1, 0, 0], [-1, 0], [-1, 0, 0, 0]] * 4
    for trees in (TREES, other):
        settings = {"share": 0.5, "labelled": (target, trees), "labelled_weight": 50.0}
        found = transfer_parser(make(), SOURCE_HEADS, target, links, **settings)
        assert trees_of(found.parser.predict(target)) == trees


def test_the_share_is_chosen_without_trees_and_trials_are_told():
    found = transfer_parser(grammar(), SOURCE_HEADS, TARGET, LINKS, share=(0.2, 0.9))
    assert [trial.share for trial in found.trials] == [0.2, 0.9]
    assert found.share == max(found.trials, key=lambda trial: trial.predicted).share
    assert found.parser.constraints == [conservation(found.share)]


def test_heads_of_target_sentences_are_not_looked_at():
    wrong = [own._replace(heads=np.arange(len(own.forms)) - 1) for own in sentences(TARGET)]
    found = transfer_parser(parser(), SOURCE_HEADS, wrong, LINKS, share=0.95)
    assert trees_of(found.parser.predict(wrong)) == TREES


def test_input_that_does_not_fit_is_named():
    with pytest.raises(InvalidInputError, match=r"links must be Links, got .*; read_links and Links.from_pairs give"):
        transfer_parser(grammar(), [[-1]], [["A"]], [[(0, 0)]], share=0.5)
    with pytest.raises(InvalidInputError, match="source_heads must have the head of every word, but sentence 1 lacks"):
        transfer_parser(grammar(), [[-1], [-2]], [["A"], ["A"]], Links.from_pairs([[], []]), share=0.5)
    links = Links.from_pairs([[(0, 0)], [(0, 5)]])
    with pytest.raises(InvalidInputError, match=r"links\.txt: link 0-5 of sentence pair 2 .* its 1 source and 1"):
        transfer_parser(grammar(), [[-1], [-1]], [["A"], ["A"]], links, share=0.5, name="links.txt")
    with pytest.raises(InvalidInputError, match="labelled_weight must be finite and above 0, got 0"):
        transfer_parser(grammar(), [[-1]], [["A"]], Links.from_pairs([[]]), share=0.5, labelled_weight=0)
    with pytest.raises(InvalidInputError, match="no arc of the source trees is conserved by links"):
        transfer_parser(grammar(), [[-1]], [["A"]], Links.from_pairs([[]]), share=0.5)


def test_sentences_that_no_tree_fits_are_an_error_or_skipped():
    # In the target the arcs 0 -> 2 and 1 -> 3 cross.
    heads, target = [[-1, 0, 3, 0]], [["A", "B", "C", "D"]]
    links = Links.from_pairs([[(0, 2), (1, 0), (3, 1), (2, 3)]])
    with pytest.raises(InfeasibleConstraintError, match="conserved arcs"):
        transfer_parser(grammar(), heads, target, links, share=1.0)
    with pytest.warns(UserWarning, match="'conserved arcs' in 1 of the instances"):
        transfer_parser(grammar(infeasible="skip"), heads, target, links, share=1.0)
