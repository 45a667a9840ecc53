"""The matcher, contexts of guards, and the rewriter that runs declared rules."""
