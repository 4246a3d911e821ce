"""Loops that tests of several passes change."""

from __future__ import annotations


def counting(
    first: int = 0, step: int = 1, limit: int = 5, direction: str = "LT", kind: str = "s32"
) -> str:
    """A loop that counts, and carries an invariant, a sum and a part that nobody reads."""
    return f"""
    HloModule m
    condition {{ s = ({kind}[], f32[2], f32[2], f32[2]) parameter(0)
      i = {kind}[] get-tuple-element(s), index=0  n = {kind}[] constant({limit})
      ROOT more = pred[] compare(i, n), direction={direction} }}
    body {{ t = ({kind}[], f32[2], f32[2], f32[2]) parameter(0)
      j = {kind}[] get-tuple-element(t), index=0  one = {kind}[] constant({step})
      k = {kind}[] add(j, one)
      same = f32[2] get-tuple-element(t), index=1
      sum = f32[2] get-tuple-element(t), index=2
      more_sum = f32[2] add(sum, same)
      unread = f32[2] get-tuple-element(t), index=3
      changed = f32[2] multiply(unread, same)
      ROOT u = ({kind}[], f32[2], f32[2], f32[2]) tuple(k, same, more_sum, changed) }}
    ENTRY main {{ x = f32[2] parameter(0)  y = f32[2] parameter(1)
      z = {kind}[] constant({first})
      init = ({kind}[], f32[2], f32[2], f32[2]) tuple(z, x, y, y)
      w = ({kind}[], f32[2], f32[2], f32[2]) while(init), condition=condition, body=body
      a = f32[2] get-tuple-element(w), index=1
      b = f32[2] get-tuple-element(w), index=2
      ROOT r = f32[2] subtract(a, b) }}
    """
