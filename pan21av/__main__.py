"""`python -m pan21av`, and what the command `pan21av` runs."""

import sys


def run() -> None:
    try:
        from .cli import main

        main()
    except KeyboardInterrupt:  # before the command itself could take it
        sys.stderr.write("pan21av: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    run()
