"""HLO texts of loops that count their iterations and change one array."""


def counted(state: str, iteration: str, iterations: int) -> str:
    """The computations ``cond`` and ``body`` of such a loop, whose state is ``(s32[], state)``.

    Args:
        state: shape of the array.
        iteration: instructions that make ``y``, the next array, of the array ``x`` and the number
            ``i``.
        iterations: how many.
    """
    return f"""cond {{
  s = (s32[], {state}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({iterations})
  ROOT go = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], {state}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = {state} get-tuple-element(s), index=1
  one = s32[] constant(1)
  {iteration}
  next = s32[] add(i, one)
  ROOT t = (s32[], {state}) tuple(next, y)
}}
"""


def around(state: str, before: str = "", after: str = "") -> str:
    """The entry of such a loop, from the parameter ``given`` to the array ``last``.

    Args:
        state: shape of the array.
        before: instructions that make ``first``, with which the loop begins; else it is ``given``.
        after: instructions that make the result; else it is ``last``.
    """
    first, root = "first" if before else "given", "" if after else "ROOT "
    return f"""ENTRY e {{
  given = {state} parameter(0)
  zero = s32[] constant(0)
  {before}
  init = (s32[], {state}) tuple(zero, {first})
  w = (s32[], {state}) while(init), condition=cond, body=body
  {root}last = {state} get-tuple-element(w), index=1
  {after}
}}
"""
