"""A program as a graph: one HTML page without a network, SVG, or PNG."""
