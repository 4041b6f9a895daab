"""Where work is done: the one seam between the commands and the machines they run on."""

from .engine import Answering, Engine, find_engine

__all__ = ["Answering", "Engine", "find_engine"]
