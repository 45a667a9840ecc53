"""Whether two programs mean the same: normal forms, cell by cell, runs."""
