"""Products of matrices by functions whose sizes and strides are known at run time."""
