"""No output of any command may take the place of an input or of another output, and all appear together."""

import os
import shutil

import pytest

from spectrem import HMMTagger, WordAligner
from spectrem.cli import files as command_files
from spectrem.data import write_lines, write_tag_dictionary, write_tagged
from spectrem.datasets import make_tagged_corpus
from spectrem.exceptions import InvalidInputError

ALIGN, TRAIN = "align en.txt fr.txt", "tag train text.txt --dictionary tags.tsv"
PROJECT, CLUSTER = "project scores.csv -c c.yaml", "cluster data.csv -k 2"


@pytest.fixture(scope="module")
def inputs(files, tmp_path_factory):
    """A folder of inputs for every command."""
    folder = tmp_path_factory.mktemp("inputs")
    shutil.copy(files.source, folder / "en.txt")
    shutil.copy(files.target, folder / "fr.txt")
    shutil.copy(files.gold, folder / "gold.txt")
    WordAligner(max_iter=1, model1_iterations=1).fit(files.bitext.source, files.bitext.target).save(folder / "m.npz")
    corpus = make_tagged_corpus(20, seed=1)
    write_tagged(folder / "text.pos", corpus.words, corpus.tags)
    write_lines(folder / "text.txt", map(" ".join, corpus.words))
    write_tag_dictionary(folder / "tags.tsv", corpus.dictionary)
    HMMTagger(dictionary=corpus.dictionary, max_iter=2, tol=1e9).fit(corpus.words).save(folder / "t.npz")
    rows = [(k % 3 * 5 + k % 7, k % 3 * 4 + k % 5) for k in range(24)]
    write_lines(folder / "data.csv", ["x,y", *(f"{x}.5,{y}.5" for x, y in rows)])
    write_lines(folder / "scores.csv", ["ham,spam", *(f"{0.25 + k / 64},{0.75 - k / 64}" for k in range(24))])
    write_lines(folder / "c.yaml", ["- E[label == 'spam'] == 9"])
    write_lines(folder / "pairs.csv", ["a,b", "0,1"])
    return folder


@pytest.fixture
def folder(inputs, tmp_path, monkeypatch):
    """A copy of the inputs in which the command runs."""
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("command", "first", "second"),
    [
        (f"{ALIGN} -o out --save out", "--output", "--save"),
        (f"{ALIGN} -o out --save ./out", "--output", "--save"),
        (f"{ALIGN} -o - --probabilities -", "--output", "--probabilities"),
        (f"{ALIGN} --save out --probabilities out", "--probabilities", "--save"),
        (f"{ALIGN} -o soft --save out", "--output", "--save"),
        (f"{ALIGN} -o hard1 --save hard2", "--output", "--save"),
        (f"{ALIGN} -o pipe --probabilities ./pipe", "--output", "--probabilities"),
        (f"{ALIGN} -o - --probabilities /dev/stdout", "--output", "--probabilities"),
        ("tag predict --load t.npz text.txt -o out --probabilities ./out", "--output", "--probabilities"),
        (f"{PROJECT} -o out.csv --prices ./out.csv", "--output", "--prices"),
        (f"{PROJECT} --prices page.html --report ./page.html", "--report", "--prices"),
        (f"{CLUSTER} --plot page.html --report ./page.html", "--report", "--plot"),
        (f"{CLUSTER} -o out.csv --plot ./out.csv", "--output", "--plot"),
    ],
)
def test_two_outputs_need_two_files(run, folder, command, first, second):
    (folder / "soft").symlink_to("out")
    (folder / "hard1").write_text("old\n")
    os.link(folder / "hard1", folder / "hard2")
    os.mkfifo(folder / "pipe")
    before = sorted(os.listdir(folder))
    result = run(*command.split())
    assert result.exit_code == 2
    assert result.stderr.startswith(f"spectrem: error: {first} and {second} must be two files, got ")
    assert result.stderr.count("\n") == 1
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    ("command", "output", "file"),
    [
        (f"{ALIGN} -o fr.txt", "--output", "TARGET"),
        (f"{ALIGN} --save en.txt", "--save", "SOURCE"),
        (f"{ALIGN} --probabilities ./en.txt", "--probabilities", "SOURCE"),
        ("align en.txt fr.txt --load m.npz -o m.npz", "--output", "--load"),
        (f"{ALIGN} --dev en.txt fr.txt gold.txt --save gold.txt", "--save", "GOLD of --dev"),
        (f"{ALIGN} -o soft", "--output", "SOURCE"),
        (f"{ALIGN} -o hard", "--output", "SOURCE"),
        ("align /dev/stdin -o en.txt", "--output", "SOURCE"),
        ("symmetrize gold.txt gold.txt -o gold.txt", "--output", "FORWARD"),
        ("symmetrize gold.txt en.txt -o en.txt", "--output", "BACKWARD"),
        ("lexicon --load m.npz -o m.npz", "--output", "--load"),
        (f"{TRAIN} --save text.txt", "--save", "CORPUS"),
        (f"{TRAIN} --save tags.tsv", "--save", "--dictionary"),
        (f"{TRAIN} --labelled text.pos --save text.pos", "--save", "--labelled"),
        (f"{TRAIN} --start t.npz --save t.npz", "--save", "--start"),
        ("tag predict --load t.npz text.txt -o t.npz", "--output", "--load"),
        ("tag predict --load t.npz text.txt --probabilities text.txt", "--probabilities", "TEXT"),
        (f"{PROJECT} -o scores.csv", "--output", "SCORES"),
        (f"{PROJECT} --prices c.yaml", "--prices", "--constraints"),
        (f"{CLUSTER} -o data.csv", "--output", "DATA"),
        (f"{CLUSTER} --must-link pairs.csv -o pairs.csv", "--output", "--must-link"),
        (f"{CLUSTER} --cannot-link pairs.csv --report pairs.csv", "--report", "--cannot-link"),
        (f"{CLUSTER} --constraints c.yaml --plot c.yaml", "--plot", "--constraints"),
    ],
)
def test_no_output_replaces_an_input(run, folder, monkeypatch, command, output, file):
    (folder / "soft").symlink_to("en.txt")
    os.link(folder / "en.txt", folder / "hard")
    if "/dev/stdin" in command:
        with open("en.txt") as stream:
            saved = os.dup(0)
            os.dup2(stream.fileno(), 0)
    before = content(folder)
    try:
        result = run(*command.split())
    finally:
        if "/dev/stdin" in command:
            os.dup2(saved, 0)
            os.close(saved)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"spectrem: error: {output} ")
    assert f"which is read as {file}; name another file" in result.stderr
    assert result.stderr.count("\n") == 1
    assert content(folder) == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{ALIGN} --save -", "--save -: this output is not text and cannot go to standard output; name a file"),
        (f"{TRAIN} --save -", "--save -: this output is not text and cannot go to standard output; name a file"),
        (f"{CLUSTER} --plot -", "--plot -: this output is not text and cannot go to standard output; name a file"),
        (f"{CLUSTER} --plot a.xyz", "--plot a.xyz: the name must end in .png, .svg, .pdf"),
        ("demo --plot a.xyz", "--plot a.xyz: the name must end in .png, .svg, .pdf"),
        ("demo --plot no/a.png", "--plot no/a.png: the folder "),
        (f"{ALIGN} --save no/m", "--save no/m: the folder "),
        (f"{TRAIN} --save no/m", "--save no/m: the folder "),
        (f"{CLUSTER} --report no/a.html", "--report no/a.html: the folder "),
        (f"{ALIGN} --save .", "--save . is a folder; name a file in it"),
        (f"{ALIGN} -o out/", "--output out/ names a folder; name a file in it"),
        (f"{ALIGN} --save en.txt/m", "--save en.txt/m: cannot be written: Not a directory; choose another place"),
        ("align - -", "SOURCE and TARGET cannot both be standard input; name files"),
        ("align en.txt - --dev - fr.txt gold.txt", "TARGET and SRC of --dev cannot both be standard input; name files"),
        ("align - /dev/stdin", "SOURCE and TARGET cannot both be standard input; name files"),
        (f"{CLUSTER} --must-link - --cannot-link -", "--must-link and --cannot-link cannot both be standard input"),
    ],
)
def test_places_are_checked_before_any_work(run, folder, monkeypatch, command, message):
    monkeypatch.setattr("spectrem.data.files.opened", None)
    before = content(folder)
    result = run(*command.split())
    assert result.exit_code == 2
    assert result.stderr.startswith(f"spectrem: error: {message}")
    assert result.stderr.count("\n") == 1
    assert content(folder) == before


def test_an_empty_name_is_no_file(run, folder):
    for option in ("-o", "--save", "--probabilities"):
        result = run(*ALIGN.split(), option, "")
        assert result.exit_code == 2
        assert "'' names no file; give its path" in result.stderr


def test_outputs_appear_together_or_not_at_all(run, folder, monkeypatch):
    before = content(folder)

    def fail(*_):
        raise MemoryError("Unable to allocate 37. GiB")

    monkeypatch.setattr("spectrem.cli.alignment.writing.probability_lines", fail)
    result = run(*ALIGN.split(), "-o", "out", "--save", "m.npz", "--probabilities", "p", "-q")
    assert result.exit_code == 2
    assert result.stderr == (
        "spectrem: error: en.txt, fr.txt: more memory is needed than there is (Unable to allocate 37. GiB); give less "
        "text or fewer rows at once\n"
    )
    assert content(folder) == before


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "more memory is needed than there is; give less text or fewer rows at once"),
        (RecursionError("maximum"), "something in it is nested too deeply; make it flatter"),
        (OverflowError("int too large"), "a number is too large (int too large); correct it"),
        (ZeroDivisionError("a bug"), None),
    ],
)
def test_limits_name_the_inputs(run, folder, monkeypatch, error, told):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("spectrem.data.read_both_links", fail)
    result = run("evaluate", "gold.txt", "-", stdin=b"")
    if told is None:
        assert result.exception is error
    else:
        assert (result.exit_code, result.stderr) == (2, f"spectrem: error: gold.txt, standard input: {told}\n")


def test_what_is_in_place_is_said_when_a_file_cannot_be(run, folder, monkeypatch):
    real, done = os.replace, []

    def second_fails(source, target):
        if done:
            raise OSError(30, "Read-only file system", source, None, target)
        done.append(target)
        real(source, target)

    monkeypatch.setattr(os, "replace", second_fails)
    result = run(*ALIGN.split(), "-o", "out", "--save", "model", "-q")
    assert result.exit_code == 2
    first, second = ("out", "model") if done[0].endswith("out") else ("model", "out")
    assert result.stderr == (
        f"spectrem: error: {second}: cannot be put in place: Read-only file system; already in place: {first}\n"
    )
    assert (folder / first).exists()
    assert not (folder / second).exists()
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_a_folder_that_is_named_is_made_only_later_inside_one_that_exists(folder):
    command_files.check_folder("--output", folder / "new")
    with pytest.raises(InvalidInputError, match=r"--output .*deeper: the folder .*new does not exist; make it first"):
        command_files.check_folder("--output", folder / "new" / "deeper")
    assert not (folder / "new").exists()


@pytest.mark.parametrize("options", ["--output links", "-o - --probabilities links", "-o - --checkpoint links"])
def test_a_working_folder_that_is_gone_is_named(run, folder, monkeypatch, options):
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = run("align", folder / "source.txt", folder / "target.txt", *options.split())
    name = " ".join(options.split()[-2:])
    assert done.exit_code == 2
    assert done.stderr == (
        f"spectrem: error: {name}: the working folder does not exist any more; change to another one\n"
    )


ESCAPE = "\x1b[31m\x07.x"  # colours the terminal and rings its bell


def test_names_of_files_reach_no_terminal_as_commands(run, folder):
    shutil.copy("text.pos", ESCAPE)
    shutil.copy("text.pos", "[b]bold[x]")
    shown = run("tag", "evaluate", "text.pos", ESCAPE, "[b]bold[x]").stdout
    assert r"\x1b[31m\x07.x" in shown
    assert "[b]bold[x]" in shown
    printed = [shown]
    for arguments in (
        ["tag", "evaluate", "text.pos", "none" + ESCAPE],
        ["tag", "train", ESCAPE, "--n-states", "2", "--save", f"no{ESCAPE}/model"],
        ["align", "en.txt", "fr.txt", "--checkpoint", ESCAPE],
        ["cluster", "data.csv", "-k", "2", "-o", "out.csv", "--constraint", f"E[{ESCAPE}] <= 1"],
    ):
        done = run(*arguments)
        assert done.exit_code == 2
        assert r"\x1b" in done.stderr
        assert done.stderr.count("\n") == 1
        printed.append(done.output)
    assert not any(mark in text for mark in "\x1b\x07" for text in printed)


def test_a_link_to_nowhere_is_no_folder(run, folder):
    (folder / "link").symlink_to("nowhere")
    done = run("align", "en.txt", "fr.txt", "--checkpoint", "link")
    assert done.exit_code == 2
    assert f"--checkpoint link: {folder / 'link'} is not a folder; name another place" in done.stderr
    assert not (folder / "nowhere").exists()
