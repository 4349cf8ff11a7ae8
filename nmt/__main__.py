"""``python -m nmt``, and the ``nmt`` command."""

from nmt.cli.app import main

if __name__ == "__main__":
    main()
