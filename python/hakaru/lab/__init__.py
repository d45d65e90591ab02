"""The lab: hosts, switches, arrays and links, built without root rights in namespaces that die with
hakaru.

Five packages; each imports only those below it, and every package names its public names in its
`__init__`:

    check      compares every link with the plan, measures plain TCP    CheckedLab(lab)
    build      applies a plan, starts engines in nodes                  Lab(plan)
    sandbox    the namespaces that the whole command runs in            sandbox.enter()
    plan       pure: nodes, links, addresses, actions, or a refusal     plan_lab(spec) -> LabPlan
    model      the `lab:` block of study.yaml                           LabSpec

A run uses them in this order:

    plan = plan_lab(spec)                       refuses a lab that cannot exist
    sandbox.enter()                             first thing in `hakaru run`
    async with Lab(plan) as lab:                builds the lab, and takes it down at the end
        checked = CheckedLab(lab)
        await checked.check_links()
        lab.start_engine(node, config)
        checked.describe()                      lab.json

This package itself imports nothing, so that `sandbox` loads quickly.
"""
