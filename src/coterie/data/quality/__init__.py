"""Data quality, as advice and never as a gate: what to look at before a model is trained on it.

    site_rows.py    a site's rows as they were read, and what it tells of them: counts and quantiles, no row
    check.py        a finding, and the table of checks: an entry at the end of the file of each, found by
                    looking here (ranges, units, constant, duplicates, missing, leaks, differs, order, labels)
    checks.py       all of them: at one site (`at_home`), and from what the sites tell (`together`)
    worth.py        what a column would bring that others record

Nothing here changes a value. Findings at home need the site's rows; those across sites need their sketches
alone, so that they are the same in one process and over a federation.
"""
