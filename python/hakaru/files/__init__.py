"""Trees of files: their description, as studies and files contain it, and tasks on them outside a
study.
"""
