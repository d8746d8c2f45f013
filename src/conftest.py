"""Examples that need a library which is not installed, and which most do without, are left out."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("icu4py") else ["spectrem/data/raw/segmented.py"]
