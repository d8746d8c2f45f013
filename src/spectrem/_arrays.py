"""Short names of the arrays that signatures speak of; docstrings give their shapes and units."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Reals: TypeAlias = NDArray[np.float64] | NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
