"""Text of programs with a manual region, over a mesh of 2 by 2."""

from collections.abc import Sequence

ROWS = '{"x"}, {}'
BOTH = '{"x"}, {"y"}'


def sdy(dims: str) -> str:
    """The frontend attribute of a sharding over the mesh."""
    return f'frontend_attributes={{xla.sdy.sharding="#sdy.sharding<@mesh, [{quoted(dims)}]>"}}'


def quoted(text: str) -> str:
    return text.replace('"', '\\"')


def border(side: str, dims: Sequence[str]) -> str:
    text = ", ".join(f"<@mesh, [{quoted(d)}]>" for d in dims)
    axes = quoted('#sdy<manual_axes{"x", "y"}>')
    return (
        f'custom_call_has_side_effect=true, frontend_attributes={{xla.sdy.{side}_shardings="#sdy.'
        f'sharding_per_value<[{text}]>",xla.sdy.manual_axes="{axes}"}}'
    )


def shard_map(
    parameter: str = "",
    result: str = "",
    root: str = "get-tuple-element(t), index=0",
    more: str = "",
    header: str = "",
) -> str:
    """Adds each device's number to its part of f32[8,4], cut over a mesh of 2 by 2."""
    noted = (
        f'f32[8,4] custom-call(out), custom_call_target="xla.sdy.FuncResultSharding", '
        f"custom_call_has_side_effect=true, {result}"
        if result
        else "f32[8,4] copy(out)"
    )
    value = "noted" if result else "out"
    return f"""HloModule m, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<["x"=2, "y"=2]>}}}}{header}
body {{
  part = f32[4,2] parameter(0)
  number = u32[] partition-id()
  real = f32[] convert(number)
  everywhere = f32[4,2] broadcast(real), dimensions={{}}
  ROOT sum = f32[4,2] add(part, everywhere)
}}
ENTRY e {{
  p = f32[8,4] parameter(0){parameter}
  in = f32[4,2] custom-call(p), custom_call_target="xla.sdy.GlobalToLocalShape", {border("in", [BOTH])}
  c = f32[4,2] call(in), to_apply=body
  out = f32[8,4] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape", {border("out", [BOTH])}
  noted = {noted}
  {more}
  t = (f32[8,4]) tuple({value})
  ROOT r = f32[8,4] {root}
}}"""  # noqa: E501
