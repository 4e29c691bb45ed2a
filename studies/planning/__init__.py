"""What a request would take before anything starts, and what its seeds could decide."""
