"""What work of convolutions takes, about.

Of these only proportions matter. All were measured on AMD EPYC (Zen 4) with one thread.
"""

GFLOPS = 118.0
"""What tiles reach, in operations a nanosecond."""
PATCH_NS = 0.1
"""To write an element of a patch whose lanes are neighbours."""
GATHERED_NS = 0.6
"""The same where a stride is between them."""
DEPTHWISE_NS = 0.3
"""By which an element of a depthwise convolution's result takes longer by planes."""
PACKED_NS = 0.2
"""To pack an element of filters that are no constant."""
EDGE_NS = 0.5
"""To write an element of the result that is in no whole vector of features."""
