"""Rules as the subject: what they do to a search, which of them follow from the others, and which are missing."""
