"""Why two terms or programs are equal: chains of single steps, each found with its rule and checked once more."""
