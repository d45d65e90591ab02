"""Tests of captures and their analysis."""
