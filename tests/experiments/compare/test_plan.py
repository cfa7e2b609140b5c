"""Which seeds a run has, and what is refused."""

import pytest

from cgcl.errors import ConfigError
from cgcl.experiments import Plan


def test_splits_have_the_run_as_seed_and_the_papers_protocol_has_one_split():
    assert [Plan().split_seed(run) for run in range(3)] == [0, 1, 2]
    assert [Plan(protocol="paper").split_seed(run) for run in range(3)] == [10, 10, 10]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"runs": 0}, "runs is 0; it must be at least 1"),
        ({"test": 0.0}, "test is 0.0; it must be above 0"),
        ({"protocol": "folds"}, "protocol is 'folds'; it must be one of splits, paper."),
        ({"val": 0.5, "test": 0.5}, "val 0.5 and test 0.5 leave no links to learn from."),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(ConfigError) as refused:
        Plan(**settings)
    assert message in str(refused.value)
