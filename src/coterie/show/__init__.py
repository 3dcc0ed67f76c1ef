"""What people see: blocks made once from the record, renderers of them, and one catalogue of words.

blocks.py    what there is to show: plain data, whose texts can be said in any language
parts.py     what a report is made of, and how a feature adds to it
html.py      blocks in a page or a report, by the templates beside it
terminal.py, figures.py    the same on a screen and on paper; `report/` has LaTeX and CSV
words        the catalogue
"""
