import numpy as np

from benchmarks.large_bitext import _BLOCK, _translate, iter_bitext, write_bitext
from spectrem.data import pharaoh_lines, read_bitext


def test_first_pairs_do_not_depend_on_how_many_are_generated():
    short, long = next(iter_bitext(30, seed=3)), next(iter_bitext(_BLOCK + 1, seed=3))
    assert short.source == long.source[:30]
    assert short.target == long.target[:30]
    assert pharaoh_lines(short.links) == pharaoh_lines(long.links)[:30]
    assert next(iter_bitext(30, seed=4)).source != short.source


def test_blocks_follow_each_other_up_to_the_number_of_pairs():
    blocks = list(iter_bitext(_BLOCK + 7, seed=1))
    assert [len(block.source) for block in blocks] == [_BLOCK, 7]
    assert [len(block.target) for block in blocks] == [block.links.n_sentences for block in blocks]
    assert blocks[0].source[:7] != blocks[1].source


def test_links_join_words_that_translate_each_other():
    block = next(iter_bitext(4000, seed=2))
    links = block.links
    assert links.n_links > 30_000
    pairs: dict[str, dict[str, int]] = {}
    for n, (source, target) in enumerate(zip(block.source, block.target, strict=True)):
        words, others = source.split(" "), target.split(" ")
        assert 5 <= len(words) <= 40
        for i, j in links.pairs(n):
            row = pairs.setdefault(words[i], {})
            row[others[j]] = row.get(others[j], 0) + 1  # a link outside its sentence would raise
    # three translations, and a second word of the first of them
    assert max(map(len, pairs.values())) == 4
    frequent = [row for row in pairs.values() if sum(row.values()) > 200]
    shares = [max(row.values()) / sum(row.values()) for row in frequent]
    assert 0.4 < np.mean(shares) < 0.75


def test_not_all_words_are_linked_and_some_cross():
    block = next(iter_bitext(2000, seed=2))
    n_words = sum(line.count(" ") + 1 for line in block.source), sum(line.count(" ") + 1 for line in block.target)
    linked = np.unique([block.links.sentence, block.links.source], axis=1).shape[1]
    assert 0.8 < linked / n_words[0] < 0.97
    assert 0.8 < block.links.n_links / n_words[1] < 0.97
    sorted_by_target = block.links.transposed()
    assert (np.diff(sorted_by_target.target)[np.diff(sorted_by_target.sentence) == 0] < 0).mean() > 0.05


def test_the_vocabulary_grows_with_the_square_root_of_the_text():
    sizes, words = [], set[str]()
    for k, block in enumerate(iter_bitext(4 * _BLOCK, seed=5)):
        words.update(*(line.split(" ") for line in block.source))
        if k in (0, 3):
            sizes.append(len(words) - 8192)
    assert 1.8 < sizes[1] / sizes[0] < 3.2  # of the words beyond the frequent ones


def test_a_word_keeps_its_translations():
    ranks = np.repeat(np.arange(0, 100_000, 997), 50)
    first, second = _translate(np.random.default_rng(0), ranks)
    for rank in np.unique(ranks):
        assert len(np.unique(first[ranks == rank])) <= 3
        assert len(np.unique(second[ranks == rank])) <= 2


def test_files_hold_what_blocks_hold(tmp_path):
    paths = [tmp_path / "source.txt", tmp_path / "target.txt.gz", tmp_path / "links.txt"]
    write_bitext(50, *paths, seed=9)
    block = next(iter_bitext(50, seed=9))
    assert paths[0].read_text().split("\n") == [*block.source, ""]
    assert paths[2].read_text().split("\n") == [*pharaoh_lines(block.links), ""]
    assert read_bitext(*paths[:2]).target_lengths.tolist() == [len(line.split()) for line in block.target]
