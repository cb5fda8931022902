"""How far a registration can be trusted.

In:   a fitted estimator; for cross-validation and tuning the points and the settings to try.
Out:  metrics, agreement of the clouds, cross-validation, tuned settings, uncertainty, and findings of a diagnosis.
Equations of docs/theory.md: 17 (cross_validation), 18 (uncertainty); section 13 defines the metrics.
"""
