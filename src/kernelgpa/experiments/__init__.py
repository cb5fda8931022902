"""The experiments of the paper, on simulated data that anyone can make again: ``kernelgpa reproduce``.

In:   the names of experiments, a seed, and optionally a folder of published data.
Out:  a folder of tables, figures and one page that states which claims of the paper and of this project hold.
Equations of docs/theory.md: none.

Each of ``liver``, ``face``, ``ct``, ``scales`` is one experiment with a full and a quick plan; ``scenes`` holds the
constants of their bodies, ``paper_tables.csv`` the paper's numbers; ``published`` runs the same methods on data of a
folder.  Only this package knows the paper's settings.
"""

from .reproduction import EXPERIMENTS, reproduce

__all__ = ["EXPERIMENTS", "reproduce"]
