"""The report: one self-contained HTML page of tables and plots from a folder of results."""

from mmulab.report.build import write_report, write_reproduction

__all__ = ["write_report", "write_reproduction"]
