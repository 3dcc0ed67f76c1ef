"""Runs on paper: a page that opens offline, tables, CSV and figures. All read only `Record`s."""

from coterie.report.page import Section, render_page, write_report
from coterie.report.paper_figures import write_figures
from coterie.report.tables import (
    calibration_frame,
    clients_frame,
    collaboration_frame,
    history_frame,
    summary_frame,
    summary_html,
    write_csv,
)
from coterie.report.terminal import print_table, render_table
from coterie.report.words import headline

__all__ = [
    "Section",
    "calibration_frame",
    "clients_frame",
    "collaboration_frame",
    "headline",
    "history_frame",
    "print_table",
    "render_page",
    "render_table",
    "summary_frame",
    "summary_html",
    "write_csv",
    "write_figures",
    "write_report",
]
