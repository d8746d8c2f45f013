"""The column "listed": links between words that a dictionary lists together."""

import numpy as np
import pytest
from bitext_oracles import KINDS, make_bitext, make_model

from spectrem.models.alignment import ListedPairs, build_shards


@pytest.mark.parametrize("kind", KINDS)
def test_links_of_listed_words_are_marked_in_both_directions(kind):
    rng = np.random.default_rng(0)
    bitext = make_bitext([(3, 2), (0, 2), (2, 4), (1, 0)], rng)
    bitext.source_tokens[[1, 3]], bitext.target_tokens[5] = [-1, 2], -1  # unknown words are listed nowhere
    table, _ = build_shards(make_bitext([(3, 3)], rng))
    _, (shard,) = build_shards(bitext, table)
    source, target = np.append(rng.integers(0, 4, 7), range(4)), np.append(rng.integers(0, 5, 7), [4] * 4)
    pairs = set(zip(source.tolist(), target.tolist(), strict=True))
    model = make_model(kind, table, listed=ListedPairs.of(source, target, 5))
    (name, marks), columns = *model.columns(shard).items(), model.structure(shard).columns
    assert name == "listed"
    for part, mark in enumerate(marks.tolist()):
        n, i, j = (int(columns[column][part]) for column in ("sentence", "source", "target"))
        words = (
            shard.source_tokens[shard.pairs.source_offsets[n] :],
            shard.target_tokens[shard.pairs.target_offsets[n] :],
        )
        assert mark == (min(i, j) >= 0 and (int(words[0][i]), int(words[1][j])) in pairs)
    assert 0 < marks.sum() < len(marks)


def test_without_a_dictionary_there_is_no_such_column():
    table, (shard,) = build_shards(make_bitext([(2, 2)], np.random.default_rng(0)))
    assert make_model("ibm1", table).columns(shard) == {}
