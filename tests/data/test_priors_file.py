"""Priors of eflomal, read and written."""

import pytest

from spectrem.data import prior_lines, read_priors
from spectrem.exceptions import InvalidInputError


def test_lines_come_back(tmp_path):
    links = [("House", "maison", 12.5), ("House", "chambre", 1e-3), ("tree", "arbre", 3.0)]
    lines = list(prior_lines(links, {-1: 2.0, 1: 80.0}, {3: 0.25}))
    assert lines[-3:] == ["HMMF\t-1\t2", "HMMF\t1\t80", "HMMR\t3\t0.25"]
    (tmp_path / "priors").write_text("\n".join(lines) + "\n")
    assert read_priors(tmp_path / "priors") == {"House": {"maison": 12.5, "chambre": 0.001}, "tree": {"arbre": 3.0}}
    assert list(read_priors(tmp_path / "priors", lowercase=True)) == ["house", "tree"]


def test_what_eflomal_writes(tmp_path):
    """Lines of all five kinds; NULL is left out, pairs that become one are added up."""
    (tmp_path / "priors").write_text(
        "LEX\t<NULL>\tde\t40\nLEX\tA\tun\t2\nLEX\ta\tun\t5\nLEX\ta\t<NULL>\t1\n"
        "FERF\ta\t1\t7\nFERR\tun\t1\t7\nHMMF\t1\t30\nHMMR\t-2\t4\n\n"
    )
    assert read_priors(tmp_path / "priors", lowercase=True) == {"a": {"un": 7.0}}


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("LEX\ta\tb", "is not a prior; write LEX"),
        ("HMMF\t1\t2\t3", "is not a prior"),
        ("a\tb\t1", "is not a prior"),
        ("a b", "is not a prior"),
        ("LEX\ta\tb\tmuch", "'much' must be a finite number above 0"),
        ("LEX\ta\tb\t0", "'0' must be a finite number above 0"),
        ("FERF\ta\t1\tnan", "'nan' must be a finite number above 0"),
    ],
)
def test_other_lines(tmp_path, line, part):
    (tmp_path / "priors").write_text(f"LEX\ta\tb\t1\n{line}\n")
    with pytest.raises(InvalidInputError) as error:
        read_priors(tmp_path / "priors")
    assert "line 2" in str(error.value)
    assert part in str(error.value)
