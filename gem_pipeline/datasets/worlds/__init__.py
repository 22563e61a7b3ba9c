"""Simulated worlds with known truth: every draw is a function of (seed, what it is for), never of what came before."""
