"""A core without its extras: each door names what is missing and the command that installs it."""

import subprocess
import sys

import pytest

WITHOUT = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {hidden!r} else found(name, package)
"""


def run(code, *hidden):
    """A process in which some modules cannot be found."""
    command = [sys.executable, "-c", WITHOUT.format(hidden=hidden) + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("room", ["pictures", "restore"])
def test_pictures_without_their_extra_say_what_to_install(room):
    done = run(f"import multigrade.{room}", "skimage", "tifffile")
    line = done.stderr.strip().splitlines()[-1]
    assert line == "ModuleNotFoundError: this needs skimage, tifffile: pip install 'multigrade[pictures]'"


def test_a_command_without_its_extra_ends_in_one_line(tmp_path):
    code = f"import sys; sys.argv = ['multigrade', 'denoise', ':camera', '-o', '{tmp_path}/o.png']\n"
    done = run(code + "from multigrade.cli import main; main()", "PIL")
    assert done.returncode == 2
    assert done.stderr == "multigrade: this needs PIL: pip install 'multigrade[pictures]'\n"
    assert not list(tmp_path.iterdir())


def test_a_command_of_the_laboratory_names_the_laboratory(tmp_path):
    code = """
import sys; from importlib import metadata
metadata.entry_points = lambda **given: ()
sys.argv = ["multigrade", "reproduce", "table1", "--recipe", "paper"]
from multigrade.cli import main; main()"""
    done = run(code)
    assert done.returncode == 2
    assert done.stderr == "multigrade: reproduce belongs to the laboratory of the paper: pip install multigrade-paper\n"
