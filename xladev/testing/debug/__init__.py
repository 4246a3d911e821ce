"""Finding what is wrong with one program: suspects, isolation, bisection, first bad numbers."""
