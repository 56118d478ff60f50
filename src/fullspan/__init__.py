"""Measure, watch, repair and prevent damage to the geometry of embedding tables."""
