"""What may be concluded from an experiment: which rewards count, their posterior, evidence of a difference, a recommendation."""
