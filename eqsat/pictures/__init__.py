"""Pictures of index maps: where each cell comes from, step by step, as SVG."""
