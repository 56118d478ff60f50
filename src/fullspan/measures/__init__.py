"""Measures: plain functions of a spectrum, of rows or of two tables; one file per geometric idea, see `catalog`."""
