"""The text of a small copy study, which tests change."""

from __future__ import annotations

COPYING = """\
format: 1
id: copying
title: {en: Copying, ja: 複製}
question: {en: How fast?, ja: 速さは}
expectation: {en: Fast., ja: 速い}
origin: emulated
lab:
  hosts: 1
  host_link: {rate: 1 Gbit/s}
  array_link: {rate: 100 Mbit/s, queue: 1 MiB}
array:
  target_name: iqn.2013-01.example.hakaru:array
  model: {kind: none}
  lus:
    - {lun: 0, size: 64 MiB, fill: {compressible_percent: 50}}
    - {lun: 1, size: 64 MiB}
load:
  kind: copy
  jobs: 4
  image: 8 MiB
  from: {array: array, lus: [0]}
  to: {array: array, lus: [1]}
  time_limit: 10 s
variables:
  case:
    plain: {}
    fast: {lab.array_link.rate: 200 Mbit/s}
    checked: {load.verify: true, load.rate_limit: 10 MB/s}
  buffer: {sets: [lab.array_link.queue, lab.host_link.queue]}
  streams: {sets: [load.streams]}
factors:
  - {case: [plain, fast, checked]}
  - {case: [fast], buffer: [64 KiB, 256 KiB], streams: [1, 2]}
measure: {repetitions: 2, sample_interval: 100 ms}
quick:
  factors: [{case: [plain], streams: [2]}]
  changes: {load.image: 4 MiB}
publications:
  paper: {title: {en: Published, ja: 公表値}, source: somewhere}
reference:
  - kind: table
    publication: paper
    table: published
    where: {buffer: null}
    over: case
    column: pattern
    levels: {plain: 1, fast: 2}
    combine: sum
    metrics: {mib_per_s: mb_per_s}
expect:
  - {kind: ratio, metric: mib_per_s, of: {case: checked}, to: {case: plain}, at_least: 0.5}
  - {kind: bound, metric: path_percent, where: {case: fast}, at_least: 10, at_most: 110}
"""

PUBLISHED = """\
pattern,vm,mb_per_s
1,vm2_1,5.31
1,vm2_2,5.29
2,vm2_1,16.56
"""
