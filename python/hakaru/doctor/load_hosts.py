"""Findings about the load hosts of a site, printed by `hakaru doctor --site`."""

from __future__ import annotations

import asyncio

from hakaru.doctor.finding import Finding
from hakaru.errors import EnvironmentError_, HakaruError
from hakaru.remote.facts import Facts
from hakaru.remote.host import HostSpec, LoadHost, facts_here, host_of
from hakaru.run.site_file import Site

NAME = "load host"


def check_load_hosts(site: Site) -> list[Finding]:
    """Reach every load host at the same time. States its engine, its CPUs and the offset of its
    clock, or why it cannot be used.
    """
    return asyncio.run(_check(site))


async def _check(site: Site) -> list[Finding]:
    try:
        here = await facts_here()
    except EnvironmentError_ as error:
        return [Finding(NAME, "fail", error.message, error.hint or "run `hakaru doctor` without --site")]
    return list(await asyncio.gather(*(_check_host(spec, here) for spec in site.hosts)))


async def _check_host(spec: HostSpec, here: Facts) -> Finding:
    host = host_of(spec)
    try:
        await host.open(here)
        return Finding(NAME, "ok", _describe(host))
    except HakaruError as error:
        return Finding(NAME, "fail", error.message.removeprefix(f"{NAME} "), error.hint)
    finally:
        await host.close()


def _describe(host: LoadHost) -> str:
    found = host.facts
    where = host.spec.ssh or "this machine"
    text = f"{host.spec.name} ({where}): {found.system}, {found.cpus} CPUs, hakaru-engine {found.version}"
    if host.clock is None:
        return text
    start = host.clock.start
    return f"{text}; clock {start.offset_ns / 1e6:+.3f} ms from this machine's, known to ±{start.bound_ns / 1e6:.3f} ms"
