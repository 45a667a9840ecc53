"""From programs to loops and moves."""
