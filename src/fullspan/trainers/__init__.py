"""Training loops that the studies share: small, exact to the published code, and fast on one core."""
