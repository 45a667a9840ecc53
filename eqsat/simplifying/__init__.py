"""`simplify`: the scalar rules at work, what they found tried at points and proved; normal forms."""
