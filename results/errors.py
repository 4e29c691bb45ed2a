"""The errors of this package. Each carries one message, ready for a person: what, why, and what to do."""

from __future__ import annotations


class ResultsError(Exception):
    """A run folder or the database cannot be read or written."""


class BusyError(ResultsError):
    """Another process held the database for too long."""


class QueryError(ResultsError):
    """A question to the database was refused or failed."""
