"""The SPMD partitioner: from a program on whole arrays to the program of one device."""
