"""How far functions of floats are from the truth, in units in the last place."""
