"""What a run of the experiments leaves in its folder.

Enters: the outcomes of experiments.
Leaves: ``page``: tables, figures and one HTML page; ``stored``: the same results as JSON, which a resumed run and the
script of docs/results.md read.
"""
