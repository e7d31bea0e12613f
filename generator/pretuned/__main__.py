"""`python -m pretuned`: the same as the console script."""

from pretuned.cli import main

if __name__ == "__main__":
    main()
