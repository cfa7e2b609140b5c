"""`python -m cgcl` is `cgcl`."""

from cgcl.cli.main import main

if __name__ == "__main__":
    main()
