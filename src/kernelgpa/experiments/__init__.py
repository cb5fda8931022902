"""The paper's experiments on data that anyone can make again, and what is better now."""

from .run import EXPERIMENTS, reproduce

__all__ = ["EXPERIMENTS", "reproduce"]
