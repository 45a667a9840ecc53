"""Operators whose layouts a user, or a target, chooses: which those are, and the program in which they have them."""
