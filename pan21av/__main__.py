"""`python -m pan21av`, and what the command `pan21av` runs."""

import atexit
import gc
import sys


def run() -> None:
    # Importing torch makes half a million objects that stay. Looking through them for garbage, again and again while
    # they are made and once more at the end, would be a fifth of the time that one pair takes.
    gc.set_threshold(10_000, 10, 10)
    atexit.register(gc.freeze)
    try:
        from .cli import main

        main()
    except KeyboardInterrupt:  # before the command itself could take it
        sys.stderr.write("pan21av: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    run()
