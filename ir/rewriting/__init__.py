"""The rewriter: matching, contexts, normal forms of scalar rules."""
