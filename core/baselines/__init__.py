"""The systems that the paper sets itself against, each from its own paper, behind the same interface."""
