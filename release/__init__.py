"""What is done to the wheel before others get it."""
