"""Declared laws of tensors at work: their patterns as e-graph rules, their maps and conditions as questions."""
