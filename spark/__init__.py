"""Pure DataFrame -> DataFrame derivation of the silver tables."""
