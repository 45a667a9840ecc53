"""numpy's functions on tensors: its names, keywords and result types, each made of views, computes and reductions."""
