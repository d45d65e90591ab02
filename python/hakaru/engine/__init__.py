"""Driving `hakaru-engine`: its contract (`contract`), one process of it (`process`) and its clock
(`clock`).
"""
