"""ATen's operators as HLO, without torch: overload names, HLO values and Python numbers go in."""
