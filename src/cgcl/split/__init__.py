"""What may be seen, and what must be guessed."""

from cgcl.split.negatives import UnlinkedPairs
from cgcl.split.split import Split, random_split

__all__ = ["Split", "UnlinkedPairs", "random_split"]
