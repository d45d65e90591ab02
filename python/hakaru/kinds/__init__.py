"""The kinds of study that come with hakaru, one folder each. They are loaded through `hakaru.kind`
and never imported by name.
"""
