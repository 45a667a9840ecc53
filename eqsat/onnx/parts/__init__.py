"""Parts of a model that are models of their own: optimised as such, and put back."""
