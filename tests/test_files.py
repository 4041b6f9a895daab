"""Every failure here is one of the operating system's own."""

import subprocess
import sys
import threading

import pytest

from pan21av.errors import EnvironmentFault, InputError
from pan21av.files import output_folder, part_of, reading, write_whole, writing


def test_the_whole_file_in_a_new_folder(tmp_path):
    write_whole(tmp_path / "deep" / "er" / "file.json", b"whole")
    assert [p.name for p in (tmp_path / "deep" / "er").iterdir()] == ["file.json"]
    assert (tmp_path / "deep" / "er" / "file.json").read_bytes() == b"whole"


def test_a_part_is_no_jsonl(tmp_path):
    assert part_of(tmp_path / "answers.jsonl") == tmp_path / "answers.jsonl.part"


@pytest.mark.parametrize("before", [None, b"old"])
def test_a_full_disk_leaves_what_was_there(tmp_path, before):
    """Files may not grow beyond 100 bytes: to the program that is a disk that fills up while it writes."""
    target = tmp_path / "file.json"
    if before is not None:
        target.write_bytes(before)
    script = (
        "import pathlib, resource, sys; from pan21av.files import write_whole\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "write_whole(pathlib.Path(sys.argv[1]), bytes(10_000))"
    )
    done = subprocess.run([sys.executable, "-c", script, target], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (f"pan21av.errors.EnvironmentFault: cannot write {target}: File too large")
    assert (target.read_bytes() if target.exists() else None) == before


def test_readers_see_one_version_or_the_other(tmp_path):
    """Large enough that a write in place would be seen half done."""
    target, versions = tmp_path / "file", [bytes([letter]) * 3_000_000 for letter in b"ab"]
    write_whole(target, versions[0])
    done, torn = threading.Event(), []

    def read():
        while not done.is_set():
            content = target.read_bytes()
            if content not in versions:
                torn.append(len(content))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(60):
        write_whole(target, versions[number % 2])
    done.set()
    reader.join()
    assert not torn


def test_what_the_system_refuses_is_one_line(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EnvironmentFault, match=r"^cannot write .*/file/inner: (File exists|Not a directory)$"):
        write_whole(tmp_path / "file" / "inner", b"x")
    with pytest.raises(EnvironmentFault, match=r"/nowhere: No such file or directory$"), reading(tmp_path):
        (tmp_path / "nowhere").read_bytes()
    with pytest.raises(EnvironmentFault, match=r"^cannot write .*: Is a directory$"), writing(tmp_path):
        tmp_path.write_bytes(b"x")


def test_an_output_folder_may_be_new_but_no_file(tmp_path):
    assert output_folder(tmp_path) == tmp_path
    assert output_folder(str(tmp_path / "new")) == tmp_path / "new"
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match=r"/file is a file; the output goes into a folder$"):
        output_folder(tmp_path / "file")


def test_other_errors_pass(tmp_path):
    for guard in (reading, writing):
        with pytest.raises(ValueError, match="mine"), guard(tmp_path):
            raise ValueError("mine")
