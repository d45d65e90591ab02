"""Captures and what is made of them."""
