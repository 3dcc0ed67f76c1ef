"""Runs on paper and on a screen: a page that opens offline, tables, CSV, figures. All read only `Record`s."""
