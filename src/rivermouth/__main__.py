"""``python -m rivermouth``: the same as the command ``rivermouth``."""

from rivermouth.cli.main import main

if __name__ == "__main__":
    main()
