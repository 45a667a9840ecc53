"""What users write about layouts: index maps, layouts, buffers."""
