"""Runs of studies: planning one (`plan`) and executing it (`runner`)."""
