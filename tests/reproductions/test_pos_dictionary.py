"""Settings of a tagger with a dictionary: grammars, code lengths, the choice without gold tags, and the command."""

import re
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproductions.tagging import pos_dictionary as pos
from reproductions.tagging.corpora import first_tokens, read_penn, read_penn_dictionary
from reproductions.tagging.minimal_grammar import description_length, minimal_grammar, tag_bigrams

TAGS = ["A", "B", "C"]
DICTIONARY = {"a": ["A"], "b": ["B"], "ab": ["A", "B"], "bc": ["B", "C"], "abc": ["C", "A", "B"]}
texts = st.lists(st.lists(st.sampled_from(sorted(DICTIONARY)), max_size=6), min_size=1, max_size=5)


def covers(grammar, words):
    """Whether some tagging of every sentence uses bigrams of the grammar alone, by trying all of them."""
    index = {tag: k for k, tag in enumerate(TAGS)}
    return all(
        any(
            all(grammar[index[left], index[right]] for left, right in pairwise(tagging))
            for tagging in product(*(DICTIONARY[word] for word in sentence))
        )
        for sentence in words
    )


@given(texts)
def test_every_sentence_has_a_path(words):
    grammar = minimal_grammar(words, DICTIONARY, TAGS)
    assert covers(grammar, words)
    if any(len(sentence) > 1 for sentence in words):
        assert not covers(np.zeros((3, 3), bool), words)


def test_the_bigram_that_covers_most_goes_first():
    # A B serves all three pairs of classes; B C, A C, B B would each serve fewer
    assert np.argwhere(minimal_grammar([["ab", "bc"], ["a", "bc"], ["ab", "b"]], DICTIONARY, TAGS)).tolist() == [[0, 1]]


def test_holes_between_covered_pairs_are_filled():
    # a,b and b,b need A B and B B, which cover (ab, bc) by itself, too; a path through c needs one more
    dictionary = {"a": ["A"], "x": ["B", "C"], "y": ["A"]}
    grammar = minimal_grammar([["a", "x"], ["x", "y"]], dictionary, TAGS)
    assert grammar.sum() == 2
    joined = minimal_grammar([["a", "x", "y"]], dictionary, TAGS)
    assert joined.sum() == 2
    middle = np.flatnonzero(joined[0])
    assert joined[middle, 0].all()


def test_tag_bigrams_stay_within_sentences():
    assert tag_bigrams([["A"], ["B", "C"], [], ["B", "C"]]) == {("B", "C")}


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=5), min_size=1, max_size=4))
def test_description_length_is_that_of_the_sequential_code(words):
    """Coding one event after another, each with (half + times seen) / (half the alphabet + all seen)."""
    dictionary = {"a": ["X", "Y"], "b": ["X", "Y"]}
    tagged = [["X" if (k + len(sentence)) % 2 else "Y" for k in range(len(sentence))] for sentence in words]
    n_words = len({word for sentence in words for word in sentence})
    seen: dict[tuple[str, str], int] = {}
    total = 0.0
    for sentence, tags in zip(words, tagged, strict=True):
        for word, (before, tag) in zip(sentence, pairwise(["start", *tags]), strict=True):
            for context, symbol, size in ((before, tag, 2), (f"emit {tag}", word, n_words)):
                times, all_times = seen.get((context, symbol), 0), seen.get((context, ""), 0)
                total -= np.log2((0.5 + times) / (0.5 * size + all_times))
                seen[context, symbol], seen[context, ""] = times + 1, all_times + 1
    assert description_length(words, tagged, dictionary, ["X", "Y"]) == pytest.approx(total, abs=1e-9)


def test_a_tag_that_nothing_follows_follows_itself():
    grammar = np.array([[False, True], [False, False]])
    assert pos.mask(grammar).tolist() == [[False, True], [False, True]]
    assert grammar.sum() == 1


def test_by_turns_ends_when_the_grammar_stays(tagged):
    dictionary = read_penn_dictionary(tagged)
    text = pos.as_text(first_tokens(read_penn(tagged), 1_500), dictionary)
    experiment = pos.Experiment(text, dictionary, threads=1, max_iter=500)
    grammar = minimal_grammar(text.words, dictionary, experiment.tags)
    rounds = list(experiment.alternate("x", grammar, 10, pos.UNIFORM))
    assert len(rounds) < 20
    assert [run.setting for run in rounds[:2]] == ["x, 1a", "x, 1b"]
    assert rounds[0].n_bigrams <= pos.mask(grammar).sum()
    # the last (b) uses the bigrams that the (b) before it used
    assert rounds[-1].n_bigrams == (rounds[-3].n_bigrams if len(rounds) > 2 else grammar.sum())
    assert all(after.n_pairs <= before.n_pairs for before, after in zip(rounds[::2], rounds[1::2], strict=True))


def test_criteria_see_no_gold_tags():
    def made(n_bigrams, log_likelihood, bits, accuracy):
        return pos.Run("x", 1.0, 1, log_likelihood, bits, n_bigrams, 5, accuracy, accuracy)

    runs = [made(9, -1.0, 8.0, 10.0), made(5, -7.0, 9.0, 20.0), made(5, -6.0, 9.5, 30.0), made(6, -9.0, 7.0, 99.0)]
    chosen = {name: min(runs, key=cost) for name, cost in pos.CRITERIA.items()}
    assert [chosen[name].accuracy for name in pos.CRITERIA] == [10.0, 99.0, 30.0]


def test_command(tagged, reproduce):
    out, rows = reproduce("pos-dictionary", tagged)
    names = [row["setting"] for row in rows]
    assert names[: len(pos.SETTINGS) + len(pos.MINIMAL)] == [*pos.SETTINGS, *pos.MINIMAL]
    assert f"{pos.CHOSEN_BY}  " in out
    by_name = {row["setting"]: row for row in rows}
    for setting in pos.BY_TURNS:
        own = [row for name, row in by_name.items() if name.startswith(f"{setting}, ")]
        assert int(by_name[setting]["E-steps"]) == sum(int(row["E-steps"]) for row in own)
        assert by_name[setting]["tag bigrams"] == own[-1]["tag bigrams"]
    least = min(int(by_name[name]["tag bigrams"]) for name in (*pos.SETTINGS, *pos.MINIMAL, *pos.BY_TURNS))
    choice = next(line for line in out.splitlines() if line.startswith(pos.CHOSEN_BY))
    assert int(by_name[re.split(" {2,}", choice)[1]]["tag bigrams"]) == least


@pytest.mark.slow
def test_accuracies_on_real_text(shared):
    """Accuracies known of the first 24,115 words of the Penn sample."""
    report = pos.run(shared / "data")
    right = {row[0]: row[-2] for row in report.tables[0].rows}
    assert right["EM, uniform start"] == pytest.approx(84.5, abs=0.3)
    assert right["annealing"] == pytest.approx(85.6, abs=0.3)
    chosen = {row[0]: row[2] for row in report.tables[1].rows}
    assert chosen[pos.CHOSEN_BY] >= 87
    assert chosen[pos.CHOSEN_FREE] >= 90
    assert right["by turns, EM, uniform start"] >= 90
