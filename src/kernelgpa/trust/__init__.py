"""How far a registration can be trusted.

In:   a fitted estimator, or points and settings.
Out:  metrics, cross-validation, tuning, uncertainty, and a diagnosis of what may be wrong.
Equations 17 to 20 of docs/theory.md live here.
"""
