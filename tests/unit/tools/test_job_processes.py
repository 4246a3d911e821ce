"""What tests hear of a job's processes."""

from tests.tools.job_processes import JobProcesses


def test_messages_do_not_split_lines(tmp_path):
    """A message of a library may come between a line's text and its end."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os\n"
        "for _ in range(100):\n"
        "    os.write(1, b'said')\n"
        "    os.write(2, b'W0000 a warning\\n')\n"
        "    os.write(1, b'\\n')\n"
    )
    with JobProcesses(2, script=script) as job:
        assert job.wait() == [0, 0]
        for process in job.processes:
            assert process.lines == ["said"] * 100
            assert process.text.count("W0000 a warning") == 100
