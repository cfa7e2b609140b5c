"""Probabilities that mean something."""

from cgcl.calibrate.calibration import Calibration
from cgcl.calibrate.choose import METHODS, fit_calibration
from cgcl.calibrate.curve import Curve, Knots, Line, Margin
from cgcl.calibrate.sample import Sample, probability_of

__all__ = [
    "METHODS",
    "Calibration",
    "Curve",
    "Knots",
    "Line",
    "Margin",
    "Sample",
    "fit_calibration",
    "probability_of",
]
