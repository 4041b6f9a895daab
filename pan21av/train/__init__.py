"""`pan21av train`: texts to an ensemble. Read in the order corpus, prepare, pairs, stage1, stage2, member, run."""

from .run import train

__all__ = ["train"]
