"""The paper's numbers: an experiment as data, its runs, and the tables and figures made of them."""

__all__: list[str] = []
