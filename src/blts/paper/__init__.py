"""The paper's experiments, and its printed numbers to put beside ours."""
