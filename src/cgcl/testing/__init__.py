"""The contract that every link predictor keeps, for ours and for yours."""

from cgcl.testing.checks import (
    CHECKS,
    ContractError,
    Make,
    Predictor,
    check_link_predictor,
    checks_of,
)

__all__ = ["CHECKS", "ContractError", "Make", "Predictor", "check_link_predictor", "checks_of"]
