"""The program: `cgcl`, or `python -m cgcl`."""

from cgcl.interrupt import end_on_signals


def main() -> None:
    """Run the command line. Before its imports, which take a while, signals have their words."""
    end_on_signals()
    from cgcl.cli.main import main

    main()


if __name__ == "__main__":
    main()
