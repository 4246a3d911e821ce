"""Cases of control flow, fusion, custom calls and host transfers."""

from tests.unit.hlo.proto.case import ADD, ONE, SELF, Case, F
from xladev.hlo.attributes import ConvDims, OutputAlias, Sharding, WindowDim

PAIR = "(u32[], f32[4])"
CONTROL = [
    Case(
        "while",
        (PAIR,),
        f"{PAIR} while(p0), condition=more, body=same",
        {"condition": "more", "body": "same"},
        f"more {{\n  a = {PAIR} parameter(0)\n  ROOT t = pred[] constant(true)\n}}\n\n"
        + SELF.format(name="same", shape=PAIR),
    ),
    Case(
        "conditional",
        ("pred[]", "f32[]"),
        "f32[] conditional(p0, p1, p1), true_computation=yes, false_computation=no",
        {"true_computation": "yes", "false_computation": "no"},
        SELF.format(name="yes", shape="f32[]") + "\n\n" + SELF.format(name="no", shape="f32[]"),
    ),
    Case(
        "conditional branches",
        ("s32[]", "f32[]"),
        "f32[] conditional(p0, p1, p1, p1), branch_computations={zero, other, zero}",
        {"branch_computations": ("zero", "other", "zero")},
        SELF.format(name="zero", shape="f32[]") + "\n\n" + SELF.format(name="other", shape="f32[]"),
    ),
    Case(
        "call",
        (F,),
        f"{F} call(p0), to_apply=one, is_composite=true,"
        ' frontend_attributes={composite.name="x.y",composite.version="1"}',
        {"to_apply": "one", "is_composite": True},
        ONE,
    ),
    Case(
        "fusion",
        (F,),
        f"{F} fusion(p0), kind=kLoop, output_to_operand_aliasing={{{{}}: (0, {{}})}}, calls=one",
        {
            "kind": "kLoop",
            "calls": "one",
            "output_to_operand_aliasing": (OutputAlias((), 0, ()),),
        },
        ONE,
    ),
    Case(
        "custom-call",
        (F,),
        f'({F}, f32[2]) custom-call(p0), custom_call_target="foo",'
        f" operand_layout_constraints={{{F}}}, custom_call_has_side_effect=true,"
        " output_to_operand_aliasing={{0}: (0, {})},"
        " padding_type=PADDING_SAME, schedule=SCHEDULE_LATEST, api_version=API_VERSION_TYPED_FFI,"
        ' backend_config="a\\001b"',
        {
            "custom_call_target": "foo",
            "operand_layout_constraints": (F,),
            "custom_call_has_side_effect": True,
            "output_to_operand_aliasing": (OutputAlias((0,), 0, ()),),
            "padding_type": "PADDING_SAME",
            "schedule": "SCHEDULE_LATEST",
            "api_version": "API_VERSION_TYPED_FFI",
        },
    ),
    Case(
        "custom-call callees",
        (F,),
        f'{F} custom-call(p0), custom_call_target="foo", called_computations={{add, again}}',
        {"custom_call_target": "foo", "called_computations": ("add", "again")},
        ADD + "\n\n" + ADD.replace("add {", "again {"),
    ),
    Case(
        "custom-call window",
        (F, F),
        f'{F} custom-call(p0, p1), custom_call_target="conv", window={{size=1x1}},'
        " dim_labels=01bf_01io->01bf, feature_group_count=2, batch_group_count=3,"
        ' operand_precision={high,default}, literal=(s32[2]{0} {1, 2}), backend_config={"a":1}',
        {
            "custom_call_target": "conv",
            "window": (WindowDim(1), WindowDim(1)),
            "dim_labels": ConvDims(2, 3, (0, 1), 2, 3, (0, 1), 2, 3, (0, 1)),
            "feature_group_count": 2,
            "batch_group_count": 3,
            "operand_precision": ("high", "default"),
            "literal": [[1, 2]],
        },
    ),
    Case(
        "infeed",
        ("token[]",),
        '(f32[4], token[]) infeed(p0), infeed_config="a\\nb"',
        {"infeed_config": "a\nb"},
    ),
    Case(
        "outfeed",
        (F, "token[]"),
        f'token[] outfeed(p0, p1), outfeed_shape={F}, outfeed_config="q"',
        {"outfeed_shape": F, "outfeed_config": "q"},
    ),
    Case(
        "send",
        (F, "token[]"),
        f"({F}, u32[], token[]) send(p0, p1), channel_id=3, is_host_transfer=true",
        {"channel_id": 3, "is_host_transfer": True},
    ),
    Case(
        "send-done",
        (F, "token[]"),
        "token[] send-done(s), channel_id=3, is_host_transfer=true",
        {"channel_id": 3, "is_host_transfer": True},
        before=f"  s = ({F}, u32[], token[]) send(p0, p1), channel_id=3, is_host_transfer=true",
    ),
    Case(
        "recv",
        ("token[]",),
        f"({F}, u32[], token[]) recv(p0), channel_id=3, is_host_transfer=true",
        {"channel_id": 3, "is_host_transfer": True},
    ),
    Case(
        "recv-done",
        ("token[]",),
        f"({F}, token[]) recv-done(r), channel_id=3, is_host_transfer=true",
        {"channel_id": 3, "is_host_transfer": True},
        before=f"  r = ({F}, u32[], token[]) recv(p0), channel_id=3, is_host_transfer=true",
    ),
    Case(
        "domain",
        (F,),
        f'{F} domain(p0), domain={{kind="sharding", entry={{maximal device=0}},'
        " exit={maximal device=1}}",
        {"domain": (Sharding("maximal", 0), Sharding("maximal", 1))},
    ),
]
