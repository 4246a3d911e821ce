"""Products of matrices and convolutions: microkernels and what calls them."""
