"""One HLO element at a time: storage and compute types, loads, stores, elementwise opcodes."""
