"""Knowledge transfer from the foundation model to vertical models."""
