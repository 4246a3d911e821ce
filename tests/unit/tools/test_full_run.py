"""The whole run's calls of pytest take each test once."""

from tests.tools import full_run, parts


def test_each_rotating_part_is_in_one_call() -> None:
    options = [chunk.arguments for chunk in full_run.chunks(2)]
    assert len({chunk.name for chunk in full_run.chunks(2)}) == len(options)
    rotating = [o[0].removeprefix("--part=") for o in options if "--only-rotating" in o]
    assert sorted(",".join(rotating).split(",")) == [str(i) for i in range(parts.PARTS)]
    assert all(parts.part_option(p) == p for p in rotating)


def test_the_others_are_in_three_calls_and_those_that_measure_alone() -> None:
    short, others, programs, serial = (
        c.arguments for c in full_run.chunks(2) if "--only-rotating" not in c.arguments
    )
    assert short == ("--part=none", "-m", "not long and not serial", "-n", "2")
    assert others[1:] == programs[1:] == ("--part=none", "-m", "long and not serial", "-n", "2")
    assert others[0] == f"--ignore={programs[0]}"
    assert serial == ("--part=all", "-m", "serial")
