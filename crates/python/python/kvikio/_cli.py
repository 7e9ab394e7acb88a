"""The command ``kvikio``."""

import sys


def main() -> int:
    """Runs the command line of this process; returns its exit status."""
    from kvikio._kvikio import run_cli

    return run_cli(sys.argv)
