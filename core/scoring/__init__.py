"""Scores, each a number with the identity that makes it comparable."""
