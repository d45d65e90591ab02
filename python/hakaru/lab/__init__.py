"""The lab: hosts, one switch, an array host and links, built rootless inside namespaces that die with hakaru.

    spec     = model.LabSpec            what a study asks for
    plan     = plan.plan_lab(spec)      pure: nodes, links, addresses, actions; refuses what cannot be
               sandbox.enter()          first thing in `hakaru run`: namespaces that vanish with this process
    async with lab.Lab(plan) as built:  applies the plan, and takes it down again
        built.start_engine(node, config)
        check.check_links(built)        is each link what was asked?
        built.describe()                lab.json

`supervisor.py` is run as a program of its own and imports nothing of hakaru. Import submodules by name; this package
imports none, so that `sandbox` stays quick to load.
"""
