"""Runs: what will be done (`plan`), and doing it (`runner`)."""
