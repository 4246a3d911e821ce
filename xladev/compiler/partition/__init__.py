"""Which device runs which instruction, and the regions that follow from it."""
