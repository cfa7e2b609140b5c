"""A fitted predictor against harder negatives than it was tested on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgcl.predict.link_predictor import LinkPredictor
from cgcl.settings import pick
from cgcl.train.config import Resources
from cgcl.train.execution import computing_with

if TYPE_CHECKING:
    from cgcl.train.harder import Against, Harder

__all__ = ["evaluate_against"]


def evaluate_against(predictor: LinkPredictor, against: Against = "heart") -> Harder:
    """Test a predictor on its held-out links against harder negatives than random pairs are.

    Args:
        predictor: A fitted predictor; its test links are looked at, its training links are known.
        against: `heart` for hard negatives of each link's own, as Li and others (NeurIPS 2023)
            have them; `heart-released` for the same with the flaws of their released generator;
            `degree` for unlinked pairs whose ends have as many links as those of links do.

    Raises:
        NotFittedError: `fit` was not called.
        SplitError: There are no test links, or too few unlinked pairs.

    Example:
        >>> import cgcl
        >>> predictor = cgcl.LinkPredictor("adamic-adar").fit(cgcl.read("cora"))
        >>> sorted(evaluate_against(predictor, "degree").metrics)
        ['degree_ap', 'degree_auc']
    """
    from cgcl.train.harder import metrics_against  # it needs scipy, which training does not

    with computing_with(pick(Resources, predictor.get_params())):
        return metrics_against(
            predictor.test_scorer(),
            predictor.split_,
            predictor.graph_,
            against,
            seed=predictor.seed,
        )
