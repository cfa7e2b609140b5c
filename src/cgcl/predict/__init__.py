"""Answers in the user's names."""

from cgcl.predict.baseline_predictor import BaselinePredictor
from cgcl.predict.link_predictor import LinkPredictor
from cgcl.predict.links import Links

__all__ = ["BaselinePredictor", "LinkPredictor", "Links"]
