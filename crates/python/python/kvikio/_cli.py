"""The command ``kvikio``."""

import signal
import sys


def main() -> int:
    """Runs the command line of this process; returns its exit status."""
    from kvikio._kvikio import run_cli

    # The command runs outside the interpreter, whose own handler would be heard only when it has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_cli(sys.argv, [path for path in sys.path if path])
