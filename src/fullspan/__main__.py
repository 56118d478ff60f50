"""``python -m fullspan`` is the command line."""

from fullspan.cli.main import main

if __name__ == "__main__":
    main()
