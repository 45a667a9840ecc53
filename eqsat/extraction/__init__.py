"""From classes to the cheapest program: alternatives, costs, exact choice, decoding."""
