"""The foundation model, the vertical models and their blocks; no rank, device or path lives here."""
