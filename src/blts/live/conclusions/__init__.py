"""What an experiment says: estimates of the arms' mean rewards, and whether its model fits the rewards."""
