"""What statements read and write: accesses under their loops and guards, conflicts between them, cells touched."""
