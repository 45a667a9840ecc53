"""What layouts cost in time: a table of measured prices, and what steps, operators and programs cost by it."""
