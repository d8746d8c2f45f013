"""`spectrem align` with a dictionary, and with tokens that translate as themselves."""

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
