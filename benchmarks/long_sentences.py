"""Long sentence pairs through the default aligner: processor seconds and megabytes by length.

A generated bitext is trained on; its words, run together, are the long pairs.
"""

from __future__ import annotations

import tracemalloc
import warnings

from common import timed

from spectrem import WordAligner
from spectrem.datasets import make_bitext

LENGTHS = (100, 300, 1000, 2000, 5000)


def main() -> None:
    bitext = make_bitext(200, seed=4)
    source, target = (" ".join(lines).split() * 3 for lines in (bitext.source, bitext.target))
    aligner = WordAligner(n_threads=1).fit(bitext.source, bitext.target)
    print("| words on both sides | processor s | MB |\n|---|---|---|")
    for length in LENGTHS:
        pair = [" ".join(source[:length])], [" ".join(target[:length])]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where position alone decides
            aligner.predict(*pair)
            tracemalloc.start()
            aligner.predict(*pair)
            peak = tracemalloc.get_traced_memory()[1] / 1e6
            tracemalloc.stop()
            _, seconds, _ = timed(lambda pair=pair: aligner.predict(*pair), 3)
        print(f"| {length:,} | {seconds:.2f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
