"""gem_pipeline: one ads foundation model over all surfaces, and the fleet that learns from it."""
