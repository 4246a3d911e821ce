"""Which sharding each value has: what the program asks for, and propagation to the rest."""
