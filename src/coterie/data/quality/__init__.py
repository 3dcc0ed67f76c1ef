"""Data quality, as advice and never as a gate: what to look at before a model is trained on it.

    rows.py         a site's rows as they were read, before anything is filled or scaled
    sketch.py       what a site tells of them: counts and quantiles, no row
    finding.py      one thing to look at
    ranges.py       values against what a body can have
    units.py, unit_shares.py    values that are in another unit: all of a site's, or some
    constant.py, duplicates.py, missing.py, leaks.py, order.py, differs.py, labels.py   one kind each
    checks.py       all of them: at one site (`at_home`), and from what the sites tell (`together`)
    worth.py        what a column would bring that others record

Nothing here changes a value. Findings at home need the site's rows; those across sites need their sketches
alone, so that they are the same in one process and over a federation.
"""
