"""Views of a run in progress. They read its directory and the socket in it, and never write.

feed       the events of a run, from its socket
state      the state of a run, from its events; pure
analyst    intervals, caveats and bottleneck of the points so far, in a process of low priority
follow     the state of a run that is kept up to date by its events and the analyst
lines      events as plain lines
screen     the full-screen view (extra `live`)
attach     the command: chooses between lines and screen
"""
