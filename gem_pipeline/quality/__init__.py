"""Expectation suites from the contract, validation, and the gate that training checks."""
