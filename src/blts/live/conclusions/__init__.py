"""What may be concluded: which rewards count, whether the model fits, estimates, evidence of a difference, a recommendation."""
