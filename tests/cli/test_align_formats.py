"""`spectrem align` on text of other programs, and its richer outputs."""

import gzip
import json
import sys
from html.parser import HTMLParser

import pytest

from spectrem import WordAligner
from spectrem.data import read_links, read_pairs, write_lines
from spectrem.data.links import pharaoh_lines

FAST = ("--n-threads", 1, "--quiet")


def fails(result, *parts):
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("spectrem: error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


def done(result):
    assert result.exit_code == 0, result.stderr
    return result.stdout


def records(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def needs_icu():
    pytest.importorskip("icu4py", reason="text is split by icu4py, which is not installed")


@pytest.fixture(scope="module")
def running(files, tmp_path_factory):
    """The generated bitext as people write: sentences end with a full stop, and the first word has a comma."""
    folder = tmp_path_factory.mktemp("running")

    def written(line):
        words = line.split()
        return " ".join([f"{words[0]},", *words[1:-1], f"{words[-1]}."]) if len(words) > 1 else line

    write_lines(folder / "en.txt", map(written, files.bitext.source))
    write_lines(folder / "fr.txt", map(written, files.bitext.target))
    return folder


def test_json_holds_what_the_other_outputs_do(run, files, tmp_path):
    places = {name: tmp_path / name for name in ("links", "json", "probabilities", "scores", "tokens")}
    probabilities = "--probabilities", places["probabilities"], "--min-probability", 0
    more = "--scores", places["scores"], "--tokens", places["tokens"]
    done(run("align", files.source, files.target, "-o", places["links"], *probabilities, *FAST))
    done(run("align", files.source, files.target, "-o", places["json"], "--output-format", "json", *more, *FAST))
    found = records(places["json"].read_text())
    assert len(found) == 120
    assert [" ".join(one["source"]) for one in found] == files.bitext.source
    lines = [f"{s} ||| {t}" for s, t in zip(files.bitext.source, files.bitext.target, strict=True)]
    assert places["tokens"].read_text().splitlines() == lines
    assert read_links(places["json"]) == read_links(places["links"])
    written = places["probabilities"].read_text().splitlines()
    for one, line, score in zip(found, written, places["scores"].read_text().splitlines(), strict=True):
        by_link = dict(entry.split(":") for entry in line.split())
        assert {f"{i}-{j}": p for i, j, p in one["links"]}.items() <= {k: float(v) for k, v in by_link.items()}.items()
        linked = [{link[k] for link in one["links"]} for k in (0, 1)]
        assert [i for i, _ in one["source_null"]] == [i for i in range(len(one["source"])) if i not in linked[0]]
        assert all(p == float(by_link[f"{i}-NULL"]) for i, p in one["source_null"])
        assert all(p == float(by_link[f"NULL-{j}"]) for j, p in one["target_null"])
        assert one["score"] == float(score)
        assert "aligned" not in one
        assert "source_spans" not in one


@pytest.mark.parametrize("printed", [("--output-format", "json"), ("--scores", "-", "-o", "links")])
def test_probabilities_beside_other_links_may_leave_the_constraints(run, files, tmp_path, monkeypatch, printed):
    monkeypatch.chdir(tmp_path)
    options = files.source, files.target, "--decode", "union", *printed, *FAST
    assert done(run("align", *options)) != done(run("align", *options, "--no-project-at-predict"))
    fails(run("align", *options, "--threshold", 0.5), "--threshold concerns probabilities, which --decode union does")


def test_json_streams_like_links(run, files, monkeypatch):
    from spectrem.models.alignment import pairs

    whole = done(run("align", files.source, files.target, "--output-format", "json", *FAST))
    monkeypatch.setattr(pairs, "_MOST_CELLS", 500)
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 500)
    pieces = records(done(run("align", files.source, files.target, "--output-format", "json", *FAST)))
    assert [one["links"] for one in pieces] != []
    assert [[link[:2] for link in one["links"]] for one in pieces] == [
        [link[:2] for link in one["links"]] for one in records(whole)
    ]


@pytest.mark.usefixtures("needs_icu")
def test_links_are_between_words_of_the_text_unless_tokens_are_given(run, running, tmp_path):
    texts = running / "en.txt", running / "fr.txt"
    words = done(run("align", *texts, "--tokenize", *FAST))
    tokens = done(run("align", *texts, "--tokenize", "--tokens", tmp_path / "tokens", *FAST))
    found = records(done(run("align", *texts, "--tokenize", "--output-format", "json", *FAST)))
    english, french = ((running / name).read_text().splitlines() for name in ("en.txt", "fr.txt"))
    for one, line, other, by_words, by_tokens in zip(
        found, english, french, words.splitlines(), tokens.splitlines(), strict=True
    ):
        for side, text in (("source", line), ("target", other)):
            assert [text[a:b] for a, b in one[f"{side}_spans"]] == one[side]
        assert " ".join(f"{i}-{j}" for i, j, _ in one["links"]) == by_tokens
        places = [
            [text[:a].count(" ") for a, _ in one[f"{side}_spans"]]
            for side, text in (("source", line), ("target", other))
        ]
        linked = sorted({(places[0][i], places[1][j]) for i, j, _ in one["links"]})
        assert " ".join(f"{i}-{j}" for i, j in linked) == by_words
    lines = (tmp_path / "tokens").read_text().splitlines()
    assert lines[0].startswith(f"{english[0].split()[0][:-1]} , ")
    assert [line.count("|||") for line in lines] == [1] * 120


@pytest.mark.usefixtures("needs_icu")
def test_tokenising_split_text_changes_nothing(run, files):
    plain = done(run("align", files.source, files.target, *FAST))
    assert done(run("align", files.source, files.target, "--tokenize", *FAST)) == plain


@pytest.mark.usefixtures("needs_icu")
def test_a_saved_model_aligns_running_text(run, running, tmp_path):
    texts = running / "en.txt", running / "fr.txt"
    first = done(run("align", *texts, "--tokenize", "--save", tmp_path / "m", *FAST))
    load = "--load", tmp_path / "m", "--n-threads", 1, "-q"
    assert done(run("align", *texts, "--tokenize", *load)) == first
    assert done(run("align", *texts, *load)) == first  # the model keeps it
    assert done(run("align", *texts, "--load", tmp_path / "m", "--update", "--save", tmp_path / "n", "-q")) is not None
    assert WordAligner.load(tmp_path / "n").tokenizes_ is True
    fails(
        run("align", *texts, *load, "--probabilities", tmp_path / "p"),
        "m was trained with --tokenize, which it keeps: --probabilities",
        "add --tokens FILE",
    )
    assert not (tmp_path / "p").exists()


@pytest.mark.usefixtures("needs_icu")
def test_a_model_of_split_text_does_not_split_text(run, running, tmp_path):
    texts = running / "en.txt", running / "fr.txt"
    done(run("align", *texts, "--save", tmp_path / "m", *FAST))
    fails(run("align", *texts, "--load", tmp_path / "m", "--tokenize"), "trained without", "drop it, or train with")
    old = WordAligner.load(tmp_path / "m")
    old.tokenizes_ = None  # as in files of earlier versions and after `fit`
    old.save(tmp_path / "old")
    assert done(run("align", *texts, "--load", tmp_path / "old", "--tokenize", "-q"))


def test_tables_and_memories_give_what_text_gives(run, files, tmp_path):
    polars = pytest.importorskip("polars", reason="tables are read by polars, which is not installed")
    expected = done(run("align", files.source, files.target, *FAST))
    frame = polars.DataFrame({"en": files.bitext.source, "fr": files.bitext.target})
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_csv(tmp_path / "t.csv")
    frame.rename({"en": "source", "fr": "target"}).write_ndjson(tmp_path / "t.jsonl")
    assert done(run("align", tmp_path / "t.parquet", "--columns", "en,fr", *FAST)) == expected
    assert done(run("align", tmp_path / "t.csv", "--columns", "en, fr", *FAST)) == expected
    assert done(run("align", tmp_path / "t.jsonl", *FAST)) == expected
    units = (
        f"<tu><tuv xml:lang='en'><seg>{s}</seg></tuv><tuv xml:lang='fr'><seg>{t}</seg></tuv></tu>"
        for s, t in zip(files.bitext.source, files.bitext.target, strict=True)
    )
    write_lines(tmp_path / "t.tmx", ["<tmx><body>", *units, "<tu/>", "</body></tmx>"])
    result = run("align", tmp_path / "t.tmx", "--languages", "en,fr", "--n-threads", 1)
    assert done(result) == expected
    assert "aligned 120 sentence pairs" in result.stderr
    assert "pairs apart: 1 without a text in both languages, skipped" in result.stderr


@pytest.mark.filterwarnings("ignore:too long")
@pytest.mark.filterwarnings("ignore:more than 5,000")
def test_pairs_that_are_not_aligned_as_others_say_so(run, files, tmp_path):
    long = " ".join(f"w{n}" for n in range(2001))
    write_lines(tmp_path / "s", [*files.bitext.source, long, "", " ".join([long] * 3)])
    write_lines(tmp_path / "t", [*files.bitext.target, "w1 w2", "x y", "x"])
    result = run(
        "align", tmp_path / "s", tmp_path / "t", "--output-format", "json", "--scores", tmp_path / "scores", *FAST
    )
    *_, by_position, empty, left_out = records(done(result))
    assert by_position["aligned"] == "by position"
    assert 0 <= by_position["score"] <= 1
    assert empty == {
        "source": [], "target": ["x", "y"], "links": [], "source_null": [], "target_null": [[0, 1.0], [1, 1.0]],
        "score": None,
    }  # fmt: skip
    assert (left_out["aligned"], left_out["links"], left_out["score"]) == ("left out", [], None)
    assert "source_null" not in left_out
    assert (tmp_path / "scores").read_text().splitlines()[-2:] == ["nan", "nan"]


def test_json_is_judged_and_merged(run, files, tmp_path):
    done(run("align", files.source, files.target, "--output-format", "json", "-o", tmp_path / "j", *FAST))
    done(run("align", files.source, files.target, "-o", tmp_path / "p", *FAST))
    judged = [done(run("evaluate", tmp_path / name, files.gold)) for name in "jp"]
    assert judged[0] == judged[1]
    merged = done(run("symmetrize", tmp_path / "j", tmp_path / "p", "--method", "union"))
    assert merged.splitlines() == pharaoh_lines(read_links(tmp_path / "j"))


def test_options_that_do_not_go_together_are_refused(run, files, tmp_path, monkeypatch):
    fails(
        run("align", files.both, "--columns", "en"),
        "--columns must name source and target with a comma between, got 'en'",
    )
    fails(
        run("align", files.both, "--languages", "en,,fr"),
        "--languages must name source and target with a comma between",
    )
    fails(run("align", files.both, "--columns", "en,fr"), "--columns en,fr: ", "has no columns with names")
    fails(run("align", files.both, "--languages", "en,fr"), "is not a translation memory; name the file .tmx")
    fails(run("align", files.both, "--tokens", files.both), "--tokens", "would replace")
    fails(run("align", files.both, "--scores", tmp_path / "s", "--tokens", tmp_path / "s"), "must be two files")
    monkeypatch.setitem(sys.modules, "icu4py", None)
    fails(run("align", files.both, "--tokenize"), "icu4py", "not installed; pip install 'spectrem[text]'")


@pytest.mark.usefixtures("needs_icu")
def test_options_that_count_words_are_refused_beside_tokens(run, files, tmp_path):
    given = "--dev", files.source, files.target, files.gold
    fails(
        run("align", files.both, "--tokenize", *given), "--dev gives links between words as they stand, but --tokenize"
    )
    fails(
        run("align", files.both, "--tokenize", "--probabilities", tmp_path / "p"), "counts tokens", "add --tokens FILE"
    )


def test_a_translation_memory_comes_back(run, files, tmp_path):
    memory, scores = tmp_path / "memory.tmx.gz", tmp_path / "scores"
    out = "--output-format", "tmx", "--languages", "en,pt-BR", "-o", memory
    done(run("align", files.source, files.target, *out, "--scores", scores, *FAST))
    filled = [n for n, pair in enumerate(zip(files.bitext.source, files.bitext.target, strict=True)) if all(pair)]
    back = read_pairs(memory, languages=("pt-br", "en"))
    assert [" ".join(back.tokens(n)[1]) for n in range(back.bitext.n_pairs)] == [files.bitext.source[n] for n in filled]
    lines = gzip.decompress(memory.read_bytes()).decode().splitlines()
    told = [line.removeprefix('<tu><prop type="score">').removesuffix("</prop>") for line in lines if "<prop" in line]
    assert told == [scores.read_text().split()[n] for n in filled]
    assert len(done(run("align", memory, *FAST)).splitlines()) == len(filled)
    fails(run("align", files.both, "--output-format", "tmx"), "add --languages, for example --languages en,fr")
    fails(run("align", files.both, *out[:2], "--languages", "en,EN"), "must name two different ones, got 'en' twice")


def test_a_memory_of_running_text_keeps_its_spaces_and_capitals(run, tmp_path, needs_icu):
    both = tmp_path / "both.txt"
    write_lines(both, ["Dr. Who's  here\x0c, R&D!\tEr ist <da>."] * 4)
    out = "--output-format", "tmx", "--languages", "en,de"
    text = done(run("align", both, "--tokenize", "--lowercase", *out, *FAST))
    assert text.count("<seg>Dr. Who's here , R&amp;D!</seg>") == text.count("<seg>Er ist &lt;da&gt;.</seg>") == 4


def test_pairs_of_low_scores_are_left_out_of_all_outputs(run, files, tmp_path):
    paths = {name: tmp_path / name for name in ("links", "tokens", "scores", "probabilities")}
    outputs = [word for name in ("tokens", "scores", "probabilities") for word in (f"--{name}", paths[name])]
    whole = ("align", files.both, "-o", paths["links"], *outputs, "--n-threads", 1)
    done(run(*whole))
    every = [paths[name].read_text().splitlines() for name in paths]
    scores = [float(score) for score in every[2]]
    least = sorted(score for score in scores if score == score)[len(scores) // 3]
    kept = [n for n, score in enumerate(scores) if score >= least]
    result = run(*whole, "--min-score", least)
    assert f"kept {len(kept)} of 120 sentence pairs, those with a score of at least {least:g}\n" in result.stderr
    assert [paths[name].read_text().splitlines() for name in paths] == [[lines[n] for n in kept] for lines in every]
    found = records(done(run("align", files.both, "--output-format", "json", "--min-score", least, *FAST)))
    assert [one["score"] for one in found] == [scores[n] for n in kept]
    lowercased = "--lowercase", "--tokens", paths["tokens"], "-o", paths["links"]
    done(run("align", files.both, *lowercased, *FAST))
    assert paths["tokens"].read_text().splitlines() == every[1]  # as they are written in the file
    text = [files.folder / "lower", *(line.lower() for line in every[1])]
    write_lines(*text[:1], text[1:])
    assert done(run("align", text[0], *FAST)) == paths["links"].read_text()
    fails(run("align", files.both, "--min-score", least), "add --tokens FILE for the text of those that are kept")


@pytest.mark.parametrize("name", ["moses", "fast_align", "eflomal", "awesome-align", "Pharaoh"])
def test_the_format_goes_by_many_names(run, files, name):
    assert done(run("align", files.both, "--output-format", name, *FAST)) == done(run("align", files.both, *FAST))


def test_formats_that_are_not_written(run, files):
    fails(run("align", files.both, "--output-format", "giza"), "files of GIZA++ (.A3.final) hold one direction; write")
    fails(run("align", files.both, "--output-format", "jsonl"), "there is no format 'jsonl'; did you mean 'json'?")


def test_the_report_shows_links(run, files, tmp_path):
    page, model = tmp_path / "page.html", tmp_path / "model.npz"
    links = done(run("align", files.both, "--report", page, "--save", model, *FAST)).splitlines()
    text = page.read_text()
    HTMLParser().feed(text)
    assert [text.count(f"<h3>{heading}") for heading in ("The first pairs", "The lowest", "The highest")] == [1, 1, 1]
    assert text.count("<svg") == 2 + 30
    first = text.partition('links of pair 1"')[2].partition("</svg>")[0]
    assert first.count("<line") == len(links[0].split())
    done(run("align", files.both, "--load", model, "--report", page, *FAST))
    again = page.read_text().partition("<h3>")[2].partition("</div><footer")[0]
    assert text.partition("<h3>")[2].startswith(again)
    loaded = WordAligner.load(model)
    shown = loaded.report_pairs(files.bitext.source, files.bitext.target, n_shown=3).to_html()
    assert shown.count("links of pair") == 9
