"""The kinds of study that come with hakaru, one folder each. Found through `hakaru.kind`, never
imported by name.
"""
