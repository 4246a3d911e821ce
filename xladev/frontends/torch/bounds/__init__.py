"""Programs for all sizes up to a bound: arrays are filled up, and what is behind never counts."""
