"""`spectrem align --anchors`."""

import numpy as np
import pytest

from spectrem import WordAligner
from spectrem.data import pharaoh_lines, write_pharaoh


def fails(result, *parts):
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


@pytest.fixture
def anchors(files, tmp_path):
    links = files.bitext.links
    known = links.where(np.arange(links.n_links) % 4 == 0)
    write_pharaoh(tmp_path / "anchors", known)
    return known, tmp_path / "anchors"


def test_anchors_are_trained_on_and_kept(run, files, tmp_path, anchors):
    known, path = anchors
    result = run("align", files.source, files.target, "--anchors", path, "-o", tmp_path / "links")
    assert result.exit_code == 0, result.stderr
    text = files.bitext.source, files.bitext.target
    links = WordAligner(n_threads=1).fit(*text, anchors=known).predict(*text, anchors=known)
    assert (tmp_path / "links").read_text().splitlines() == pharaoh_lines(links)


def test_a_loaded_model_keeps_anchors(run, files, tmp_path, anchors):
    known, path = anchors
    run("align", files.source, files.target, "--save", tmp_path / "model", "-o", tmp_path / "free")
    options = ["--load", tmp_path / "model", "--anchors", path, "--probabilities", tmp_path / "p"]
    result = run("align", files.source, files.target, "-o", tmp_path / "links", *options)
    assert result.exit_code == 0, result.stderr
    lines, free, shown = ((tmp_path / name).read_text().splitlines() for name in ("links", "free", "p"))
    for n, line in enumerate(lines):
        wanted = [f"{i}-{j}" for i, j in known.pairs(n)]
        assert set(wanted) <= set(line.split())
        assert {f"{link}:1" for link in wanted} <= set(shown[n].split())
    assert lines != free


def test_anchors_beside_dev(run, files, tmp_path, anchors):
    dev = tmp_path / "gold"
    write_pharaoh(dev, files.bitext.links)
    options = ["--anchors", anchors[1], "--dev", files.source, files.target, dev, "--max-iter", "1"]
    result = run("align", files.source, files.target, "-o", tmp_path / "links", *options)
    assert result.exit_code == 0, result.stderr


def test_anchors_that_are_wrong_are_named(run, files, tmp_path):
    path = tmp_path / "anchors"
    n = len(files.bitext.source)
    path.write_text("\n" * (n - 1) + "0-0 77-0\n")
    lengths = len(files.bitext.source[-1].split()), len(files.bitext.target[-1].split())
    message = f"{path}: link 77-0 of sentence pair {n} (counted from 1) lies outside its {lengths[0]} source and "
    fails(run("align", files.source, files.target, "--anchors", path), message)
    fails(run("align", files.source, files.target, "--anchors", path, "--tokenize"), "but --tokenize splits them")
    path.write_text("0-0\n")
    fails(run("align", files.source, files.target, "--anchors", path), f"{path} has 1 lines, but the bitext has {n}")
    path.write_text("\n" * (n - 2) + "0-0\nx\n")
    fails(run("align", files.source, files.target, "--anchors", path), f"{path}, line {n}: 'x' is not a link")
