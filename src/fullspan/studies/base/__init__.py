"""What all studies share: the grid, its execution, statistics over seeds, claims, figures, one page and one result."""
