"""How far functions of floats lie from the truth, in units in the last place."""
