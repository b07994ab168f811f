"""How fast blts is, beside hand-written NumPy and beside other packages; `python -m benchmarks` prints the tables."""
