"""Checking a result before it is returned, by code that shares nothing with loading, searching and decoding.

First the interfaces are compared. Then the two graphs are matched, and each region in which they differ is checked
alone, on random values of what it reads: `graph` and `plan` find the regions, `drive` orders them within a budget,
`programs` evaluates those of programs, `models` runs those of ONNX models. The relation is refinement: what depends on
holes of the original is ignored, and inputs on which the original has no value are drawn anew.
"""
