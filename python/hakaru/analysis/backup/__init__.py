"""Backups: from the counters of copies over a network to where the frames and the time went.

    study.json ── setup ──> conditions of a point
        counters ── copies, hops, tcp ──> numbers of a repetition
        points ── limiter, maps, neighbours, reference ──> findings

Vocabulary: a *job* copies one image; a *hop* is one direction of a link on the data's way, which
has two *legs* (`read`: source to host, `write`: host to destination); the *path* is the write leg,
its *narrowest* hop the one whose rate is the path's; *collapse* is a path used to less than half.
"""
