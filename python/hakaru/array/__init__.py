"""The standalone array: one array that is served from a file, apart from any study.

    array.yaml ──load──> ArrayFile ─┐
                                    ├─ configure ──> contract.ArrayConfig ──> hakaru-engine
    STATE/state.json ──> Online ────┘
    hakaru array status|grow|… ──control.sock──> serve ──contract──> hakaru-engine

- **array file**: the operator's *declarations*: names, portals, pools, LUs, access (`model`,
  `load`).
- **state directory**: later changes and the data: LUs created online, larger sizes, added groups
  (`state`); pools; the lock of the process that serves; its control socket.
- **serve**: the process that runs one engine, and answers the control socket (`control`) and
  Prometheus (`metrics`).
- **control socket**: a Unix socket in the state directory, a line of JSON each way (`protocol`);
  the commands of `hakaru array` are its clients (`client`).

Python is never on the data path: it forwards operators' requests and the engine's counters.
"""
