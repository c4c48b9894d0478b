"""Published methods that the default does not use: kinds of surrogates, calibrations, trainings, priors.

Each of them is found by an entry point, as the kinds of other packages are (`dngo.plugins`).

`in_sample`, `quadratic`, `evidence`: Snoek et al. 2015. `bohamiann`, `sghmc`, `sampled`: Springenberg
et al. 2016. `least_squares`: Brofos, Shu and Jin 2015.
"""
