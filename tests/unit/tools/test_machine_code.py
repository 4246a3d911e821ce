"""What is read from nvdisasm's text: blocks, loops, accesses, the path that counts."""

from tests.tools.machine_code import Access, parse_machine_code

RARE = """
k_kernel:
.text.k_kernel:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/               @P0 EXIT ;
        /*0020*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0030*/               @P1 BRA `(.L_x_2) ;
.L_x_1:
        /*0040*/                   STG.E.128 desc[UR4][R2.64], R4 ;
        /*0050*/                   EXIT ;
.L_x_2:
        /*0060*/                   FMUL R4, R4, R4 ;
        /*0070*/                   FMUL R5, R5, R5 ;
        /*0080*/                   BRA `(.L_x_1) ;
.L_x_3:
        /*0090*/                   BRA `(.L_x_3);
        /*00a0*/                   NOP;
"""
LOOPS = """
.text.k_kernel:
        /*0000*/                   MOV R0, RZ ;
.L_x_0:
        /*0010*/                   MOV R1, RZ ;
.L_x_1:
        /*0020*/                   LDG.E.U16 R4, desc[UR4][R2.64] ;
        /*0030*/               @P0 BRA `(.L_x_1) ;
        /*0040*/                   STG.E desc[UR4][R2.64], R4 ;
        /*0050*/              @!P1 BRA `(.L_x_0) ;
        /*0060*/                   EXIT ;
"""


def test_the_path_that_stores_leaves_rare_branches_out():
    code = parse_machine_code(RARE)
    path = [line for block in code.cheapest_path for line in block.instructions]
    assert [line.split()[0] for line in path] == ["S2R", "@P0", "LDG.E.128.CONSTANT", "@P1",
                                                  "STG.E.128", "EXIT"]  # fmt: skip
    assert [a for b in code.cheapest_path for a in b.accesses] == [
        Access(False, 16),
        Access(True, 16),
    ]
    assert sum(len(b.instructions) for b in code.blocks) == 10
    assert code.inner_loops == ()


def test_a_branch_back_from_the_end_is_no_loop_and_one_within_another_is_the_inner_one():
    code = parse_machine_code(LOOPS)
    ((inner,),) = code.inner_loops
    assert inner.accesses == (Access(False, 2),)
    assert sum(len(b.instructions) for b in code.cheapest_path) == 7


def test_without_code_there_is_nothing():
    code = parse_machine_code("")
    assert (code.inner_loops, sum(len(b.instructions) for b in code.cheapest_path)) == ((), 0)
