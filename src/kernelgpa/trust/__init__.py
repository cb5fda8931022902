"""How far a registration can be trusted.

In:   a fitted estimator; for cross-validation and tuning the points and the settings to try.
Out:  metrics, agreement of the clouds, cross-validation, tuned settings, uncertainty, and findings of a diagnosis.
Section 13 of docs/theory.md defines the metrics; equation 17 is applied in cross_validation, 18 in uncertainty.
"""
