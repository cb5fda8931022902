"""What a run of the experiments writes into its folder.

In:   the outcomes of experiments.
Out:  ``page``: tables, figures and one HTML page; ``stored``: the same results as JSON, which a resumed run and the
      script of docs/results.md read.
Equations of docs/theory.md: none.
"""
