"""The report: one self-contained HTML page of tables and plots from a folder of results."""

from mmulab.report.build import check_sweeps, write_report, write_reproduction

__all__ = ["check_sweeps", "write_report", "write_reproduction"]
