"""Schedules: rewriting the loops and buffers of a function, each step legal or refused with a witness."""
