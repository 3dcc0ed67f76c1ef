"""Linear models solved exactly: likelihoods with their slopes and curvature, a Newton solver for many
problems at once, and how strongly coefficients are held, by cross-validation or by the marginal likelihood.

What a site does with them is in `kernels/` (`ridge`, `newton`, `curvature`), what sites do together in
`methods/linear/`.
"""
