"""Errors that a user can act on, with the exit code of the command."""

from __future__ import annotations


class PanError(Exception):
    """One clear line for the user; never shown as a traceback."""

    exit_code = 1


class InputError(PanError):
    """The input or the way the command was called is wrong."""

    exit_code = 2


class EnvironmentFault(PanError):
    """The machine, not the input: files that cannot be written, missing or damaged models."""

    exit_code = 3
