"""`spectrem align` with a dictionary, and with tokens that translate as themselves."""

import pytest

from spectrem import WordAligner
from spectrem.data import encode_bitext, pharaoh_lines

SOURCE = ["The cat sees 5 Dogs", "a cat"] * 3
TARGET = ["le chat voit 5 chiens", "un chat"] * 3


def write(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b", tmp_path / "words.tsv"]
    for path, lines in zip(paths, (SOURCE, TARGET, ["The\tle\t3", "Dogs\tchiens", "cow\tvache"]), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    return paths


def expected(dictionary, *, lowercase=False, **parameters):
    bitext = encode_bitext(SOURCE, TARGET, lowercase=lowercase)
    return pharaoh_lines(WordAligner(dictionary=dictionary, n_threads=1, **parameters).fit(bitext).predict(bitext))


def test_a_dictionary_is_used_and_the_summary_counts_its_pairs(run, tmp_path):
    *text, words = write(tmp_path)
    out = tmp_path / "links"
    options = ["--dictionary", words, "--dictionary-strength", "50", "--model", "ibm1"]
    result = run("align", *text, "-o", out, *options)
    assert result.exit_code == 0, result.stderr
    assert "; word pairs with pseudo-counts: 2\n" in result.stderr
    pairs = {"The": {"le": 3.0}, "Dogs": {"chiens": 1.0}, "cow": {"vache": 1.0}}
    assert out.read_text().splitlines() == expected(pairs, dictionary_strength=50, model="ibm1")
    assert out.read_text().splitlines() != expected(None, model="ibm1")


def test_a_dictionary_is_lower_cased_with_the_text(run, tmp_path):
    *text, words = write(tmp_path)
    result = run("align", *text, "-o", tmp_path / "links", "--dictionary", words, "--lowercase")
    assert "; word pairs with pseudo-counts: 2\n" in result.stderr
    pairs = {"the": {"le": 3.0}, "dogs": {"chiens": 1.0}, "cow": {"vache": 1.0}}
    assert (tmp_path / "links").read_text().splitlines() == expected(pairs, lowercase=True)


def test_kinds_of_equal_tokens(run, tmp_path):
    *text, _ = write(tmp_path)
    out = tmp_path / "links"
    result = run("align", *text, "-o", out, "--same", "numbers, urls", "--same-strength", "20", "--model", "ibm1")
    assert "; word pairs with pseudo-counts: 1\n" in result.stderr
    assert out.read_text().splitlines() == expected(None, same=["numbers", "urls"], same_strength=20, model="ibm1")


def test_kinds_that_are_given_one_by_one(run, tmp_path):
    *text, _ = write(tmp_path)
    result = run("align", *text, "-o", tmp_path / "links", "--same", "numbers", "--same", "words")
    assert "; word pairs with pseudo-counts: 1\n" in result.stderr
    result = run("align", *text, "--same", "numbers", "--same", "all")
    assert result.exit_code == 2
    assert "--same must be some of numbers, urls, punctuation, words, got ('numbers', 'all')" in result.stderr


@pytest.mark.filterwarnings("default")
def test_entries_of_several_words_are_warned_of_once(run, tmp_path):
    *text, words = write(tmp_path)
    with words.open("a") as lines:
        lines.write("hot dog\tchien\ncat\tle chat\n")
    result = run("align", *text, "-o", tmp_path / "links", "--dictionary", words)
    assert result.exit_code == 0
    warning = (
        "2 of the 5 pairs of the dictionary have several words on a side and no effect, the first 'hot dog' and "
        "'chien'; pair their words one by one"
    )
    assert result.stderr.count(warning) == 1
    assert "; word pairs with pseudo-counts: 2\n" in result.stderr


def test_a_constraint_on_the_words_of_the_dictionary(run, tmp_path):
    *text, words = write(tmp_path)
    rule = "(E[listed] >= 0.9 * E.count(listed)).per('sentence')"
    options = ["--constraint", rule, "--dictionary-strength", "0", "-o", tmp_path / "links"]
    result = run("align", *text, *options, "--dictionary", words, "--save", tmp_path / "model")
    assert result.exit_code == 0, result.stderr
    lines = (tmp_path / "links").read_text()
    result = run("align", *text, "--load", tmp_path / "model", "-o", tmp_path / "again")
    assert (tmp_path / "again").read_text() == lines
    result = run("align", *text, "--constraint", rule)
    assert result.exit_code == 2
    assert "listed" in result.stderr


TAGGED = (
    ["The|the|DT cat|cat|NN sees|see|VB dogs|dog|NN", "a|a|DT dog|dog|NN saw|see|VB cats|cat|NN"] * 3,
    ["le|le|D chat|chat|N voit|voir|V chiens|chien|N", "un|un|D chien|chien|N vit|voir|V chats|chat|N"] * 3,
)


def factor(lines, at):
    return [" ".join(token.split("|")[at] for token in line.split()) for line in lines]


def test_factors_name_the_word_and_its_class(run, tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, lines in zip(paths, TAGGED, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    out, probabilities = tmp_path / "links", tmp_path / "p"
    forms, lemmas = ([factor(lines, k) for lines in TAGGED] for k in (0, 1))
    classes = [
        dict(pair for form, lemma in zip(*both, strict=True) for pair in zip(form.split(), lemma.split(), strict=True))
        for both in zip(forms, lemmas, strict=True)
    ]
    for factors, text, options in (
        ("word|class|tag", forms, {"classes": classes}),
        ("word|-|-", forms, {}),
        ("-|word|-", lemmas, {}),
    ):
        result = run("align", *paths, "--factors", factors, "-o", out, "--probabilities", probabilities)
        assert result.exit_code == 0, result.stderr
        aligner = WordAligner(n_threads=1).fit(*text, **options)
        assert out.read_text().splitlines() == pharaoh_lines(aligner.predict(*text))
        first = float(probabilities.read_text().split(":")[1].split()[0])
        assert first == pytest.approx(aligner.predict_proba(*text).average[0][0, 0], abs=1e-3)


def test_factors_that_tokens_do_not_have(run, tmp_path):
    (tmp_path / "both").write_text("a|b ||| c|d\n" * 2)
    for options, message in (
        (["word|class|tag"], "source sentence 1 (counted from 1): 'a|b' has 2 factors, and 'word|class|tag' names 3"),
        (["form"], "factors must name one word and at most one class, got 'form'"),
        (["word|class", "--tokenize"], "--factors word|class names parts of tokens, which --tokenize makes"),
    ):
        result = run("align", tmp_path / "both", "--factors", *options)
        assert result.exit_code == 2
        assert message in result.stderr
