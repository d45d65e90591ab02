"""Runs in a browser, on this machine only: the run in progress, all runs of a folder, their reports
and comparisons. Reads runs and never writes.

    server     token, address, and the server's process
    guard      who may read: Host, Origin, token, and the headers of every answer
    app        the routes
    hub        the newest run in progress, for all readers
    pages      the contents of the pages
    metrics    the run in progress for Prometheus

`grafana.json` is a dashboard for these metrics. The files in `static/uplot` are those of the
package uplot (MIT), unchanged.
"""
