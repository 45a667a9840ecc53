"""Terms: nodes, building, text, JSON, walks, numpy meaning."""
