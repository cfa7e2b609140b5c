"""The contract that every link predictor keeps, for ours and for yours."""

from cgcl.testing.contract import CHECKS, check_link_predictor, checks_of
from cgcl.testing.predictor import ContractError, Make, Predictor

__all__ = [
    "CHECKS",
    "ContractError",
    "Make",
    "Predictor",
    "check_link_predictor",
    "checks_of",
]
