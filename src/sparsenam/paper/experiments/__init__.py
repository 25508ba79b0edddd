"""Experiments on the paper's theorems: independent cells in, JSON-able summaries out.

Every module has ``cells(settings)``, the cells there are; ``inputs(cell, settings)``, the settings that decide a
cell's numbers, and no others; ``run_cell(cell, inputs)``, its record; and ``summarise(records, settings)``.
"""
