"""The array on its own: one array kept running from a file, apart from any study.

    array.yaml ──load──> ArrayFile ─┐
                                    ├─ configure ──> contract.ArrayConfig ──> hakaru-engine
    STATE/state.json ──> Online ────┘
    hakaru array status|grow|… ──control.sock──> serve ──contract──> hakaru-engine

- **array file**: what the operator *declares*: names, portals, pools, LUs, who may log in (`model`,
  `load`).
- **state directory**: later changes, and the bytes: LUs made online, sizes grown, groups added
  (`state`); pools; the lock of the process that serves; its control socket.
- **serve**: the process that keeps one engine, answers the control socket (`control`) and
  Prometheus (`metrics`).
- **control socket**: a Unix socket in the state directory, a line of JSON each way (`protocol`);
  the commands of `hakaru array` are its clients (`client`).

Python is never on the data path: it passes on what operators ask for and what the engine counts.
"""
