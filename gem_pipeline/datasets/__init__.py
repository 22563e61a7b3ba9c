"""Adapters that land public logs as bronze tables of a contract."""
