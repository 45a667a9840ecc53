"""Small functions in which the laws of statements act, at least one for each."""

from __future__ import annotations

PADDED = """\
func f(A: int32[4, 4], B: int32[1])
  for io in 4:
    for ii in 4:
      assume 4*io + ii < 14 or A[io, ii] == int32(0)
  B[0] = int32(0)
  for jo in 4:
    for ji in 4:
      {}"""
STAGES = """\
func f(A: int32[16], B: int32[16], C: int32[1])
  alloc T: int32[16]
  for i in 16:
    T[i] = A[i] + int32(1)
  C[0] = A[15]
  for j in 16:
    B[j] = T[j] + int32(1)
{}"""

FUNCTIONS = {
    "nothing-first": """\
func f(A: int32[16, 17], B: int32[16, 17])
  for i in 16:
    for j in 16:
      if i < 4:
        B[i, j + 1] = A[i, j]
      A[i, j + 1] = B[i, j + 1]""",
    "nothing-last": """\
func f(A: int32[16, 17], B: int32[16, 17])
  for i in 16:
    for j in 16:
      A[i, j] = B[i, j]
      if i < 4:
        B[i, j + 1] = A[i, j]""",
    "in-a-row": """\
func f(A: int32[16], B: int32[16])
  for i in 16:
    A[i] = B[i]
    B[i] = int32(1)
  for j in 16:
    A[j] = int32(3)""",
    "overwritten": """\
func f(A: int32[16], B: int32[16])
  A[3] = B[3]
  for i in 16:
    A[i] = B[i] + int32(1)""",
    "else-only": PADDED.format("if 14 <= 4*jo + ji:\n        pass\n      else:\n        B[0] = B[0] + A[jo, ji]"),
    "split-condition": """\
func f(A: int32[16], c: int32[1])
  for i in 16:
    if c[0] < int32(1) and A[i] < int32(3):
      A[i] = int32(2)""",
    "swap": """\
func f(A: int32[16], B: int32[16], c: int32[1])
  for i in 16:
    for j in 16:
      if A[j] < int32(3):
        B[j] = A[j]
        if c[0] < int32(3):
          if i < 4:
            B[j] = B[j] + int32(1)""",
    "where-to-branch": """\
func f(A: int32[16, 16], B: int32[16, 16])
  for i in 16:
    for j in 16:
      A[i, j] = where(i < 4, B[i, j], int32(0))""",
    "join": """\
func f(A: int32[16], B: int32[16])
  for i in 16:
    if A[i] < int32(3):
      B[i] = int32(1)
    if A[i] < int32(3):
      A[i] = int32(2)""",
    "join-opposite": """\
func f(A: int32[16], B: int32[16])
  for i in 16:
    if not B[i] < int32(4):
      A[i] = int32(1)
    if B[i] < int32(4):
      A[i] = int32(2)""",
    "empty-loop": """\
func f(A: int32[16], B: int32[16], c: int32[1])
  for i in 16:
    if c[0] < int32(1):
      A[i] = int32(2)
    B[i] = A[i]""",
    "hoist": """\
func f(A: int32[16], c: int32[1])
  for i in 16:
    if c[0] < int32(1):
      A[i] = int32(2)
    else:
      A[i] = int32(3)""",
    "hoist-between": """\
func f(A: int32[16, 17], B: int32[16, 17])
  for i in 16:
    for j in 16:
      A[i, j] = B[i, j]
      if i < 4:
        B[i, j + 1] = A[i, j]
      A[i, j + 1] = B[i, j + 1]""",
    "merge-loops": STAGES.format("").replace("  C[0] = A[15]\n", ""),
    "past": STAGES.format(""),
    "past-one": STAGES.format("  C[0] = C[0] + B[0]"),
    "made-before": """\
func f(A: int32[16], B: int32[16])
  for i in 16:
    A[i] = A[i] + int32(1)
  alloc T: int32[16]
  for j in 16:
    T[j] = A[j]
  for k in 16:
    B[15 - k] = T[k]""",
    "simpler": """\
func f(A: int32[16])
  for i in 16:
    A[i // 4 * 4 + i % 4] = int32(1)""",
    "needless": """\
func f(A: int32[16], B: int32[16])
  alloc T: int32[16]
  for i in 16:
    T[i] = A[i]
    B[i] = int32(1)""",
    "always": """\
func f(A: int32[16])
  for i in 16:
    if i < 20:
      A[i] = int32(1)""",
    "never": """\
func f(A: int32[16])
  for i in 16:
    if 20 < i:
      A[i] = int32(1)
    else:
      A[i] = int32(2)""",
    "shorter": """\
func f(A: int32[16], B: int32[16])
  for i in 16:
    if i // 4 * 4 + i % 4 < 7:
      A[i] = B[i] + int32(1)
    else:
      A[i] = B[i]""",
    "no-difference": """\
func f(A: int32[16], B: int32[16])
  for i in 16:
    if B[i] < int32(1):
      A[i] = int32(3)
    else:
      A[i] = int32(3)""",
    "overcompute": PADDED.format("if 4*jo + ji < 14:\n        B[0] = B[0] + A[jo, ji]"),
    "smaller": """\
func f(A: int32[16], B: int32[16])
  for i in 16:
    if i < 4:
      A[i] = B[i]""",
    "kept-on": """\
func f(A: int32[16], B: int32[16])
  alloc T: int32[16]:
    for i in 16:
      T[i] = A[i]
    for j in 16:
      B[j] = T[15 - j]
  for k in 16:
    A[k] = B[k]""",
}
"""By the law that a function was written for; others act in it, too."""
