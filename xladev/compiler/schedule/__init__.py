"""The order of steps, and what is computed again, so that few bytes live at once."""
