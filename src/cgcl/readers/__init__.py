"""A graph comes in, from a file, an object or a data set."""

from cgcl.readers.datasets import DATASETS, load_dataset
from cgcl.readers.read import read

__all__ = ["DATASETS", "load_dataset", "read"]
