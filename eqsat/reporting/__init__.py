"""What a result is, for people: a summary in words, a table by operator, and a page with pictures of both programs."""
