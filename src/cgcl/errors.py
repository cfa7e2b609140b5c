"""The errors this package raises on purpose.

Every message says what was found, what was expected and what to do, in at most four lines.
"""

from __future__ import annotations


class CGCLError(Exception):
    """Base of all errors that the package raises on purpose."""


class GraphFormatError(CGCLError):
    """A file cannot be read as a graph: wrong columns, broken encoding, not a regular file."""


class GraphContentError(CGCLError):
    """A graph was read, but nothing can be learned from it, or a node is not in it."""


class FeatureError(CGCLError):
    """Node features are missing, not finite, not numeric or do not match the nodes."""


class SplitError(CGCLError):
    """The graph cannot be split as asked: too few links, or too few unlinked pairs."""


class ConfigError(CGCLError):
    """A setting is out of range, unknown, or contradicts another one."""


class TrainingError(CGCLError):
    """Training cannot go on and there is no earlier state worth keeping."""


class ModelFileError(CGCLError):
    """A model or checkpoint file is damaged, foreign or does not fit its configuration."""


class RunFolderError(CGCLError):
    """A run folder is missing, incomplete, in use or belongs to another run."""


class NotFittedError(CGCLError, ValueError, AttributeError):
    """A predictor was asked for an answer before `fit` or `load`.

    Like scikit-learn's error of that name it is also a ValueError and an AttributeError.
    """


class ResourceError(CGCLError):
    """Disk, memory, device or network does not allow what was asked."""


class TooLargeError(ResourceError):
    """Reading a file would take more memory than may be taken; a store of it takes less."""
