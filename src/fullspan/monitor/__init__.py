"""Watching tables while they are trained."""
