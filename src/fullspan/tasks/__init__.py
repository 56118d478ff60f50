"""What a comparison of strategies is scored on: tasks with their units, metrics and bootstrap."""
