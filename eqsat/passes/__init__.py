"""Passes over statements: functions from PrimFunc to PrimFunc that are legal, or refuse with a witness."""
