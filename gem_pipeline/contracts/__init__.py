"""The data contract and the schema of every table that derives from it."""
