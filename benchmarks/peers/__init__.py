"""Other people's models on the rows and features that GEM gets, each family in an environment of its own."""
