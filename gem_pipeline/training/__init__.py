"""Training: one step, one pass over a day, optimisers, the model store, the plan of a day."""
