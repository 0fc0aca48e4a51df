"""`python -m anyshot` is the command `anyshot`."""

from anyshot.cli import main

if __name__ == "__main__":
    main()
