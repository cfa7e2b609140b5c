"""Any saved predictor, whatever its method."""

from __future__ import annotations

from pathlib import Path

from cgcl.predict.baseline_predictor import BASELINE, BaselinePredictor
from cgcl.predict.link_predictor import LinkPredictor

__all__ = ["load_predictor"]


def load_predictor(folder: Path, device: str = "auto") -> LinkPredictor | BaselinePredictor:
    """Return the predictor that was saved to a folder.

    Args:
        folder: Where it was written.
        device: Where to compute from now on.

    Raises:
        RunFolderError: The folder holds no predictor; the message says what it is instead.
        ModelFileError: A file is missing, damaged, foreign or does not belong to the others.
        ResourceError: The device does not exist.
    """
    kind = BaselinePredictor if (folder / BASELINE).exists() else LinkPredictor
    return kind.load(folder, device)
