"""Load hosts: the machines on which the engines of a run are started, this one or others.

    async with open_hosts(specs) as hosts:       every machine answers, and all engines are the same
        await hosts["kvm-1"].spawn(config)

Callers do not know how a host is reached: every `LoadHost` (`host`) starts an `EngineSession` whose
instants are those of this machine's clock. `ssh` has the command line of the user's OpenSSH client
and the meaning of its errors; `facts` asks for versions, architecture and CPUs of a machine.
"""
