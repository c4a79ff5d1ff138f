"""The command line explains itself, completes itself, and refuses wrong words before anything is done."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from controller import live
from controller.__main__ import main

COMMANDS = ("run", "plan", "get", "watch", "export", "import", "completion")
CARD = {"name": "RX 9070", "host": "192.168.1.50", "vram_gb": 16}


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_every_command_and_shows_how_it_is_used(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert f"\n    {command}" in helped(capsys)
    if command != "run":
        assert "\nexamples:\n" in helped(capsys, command)
        assert f"gpu-topology {command} " in helped(capsys, command).partition("\nexamples:\n")[2]


def test_help_names_the_exit_codes_that_a_script_can_use(capsys: pytest.CaptureFixture[str]) -> None:
    shown = helped(capsys, "get").partition("\nexit codes:\n")[2]
    assert [int(line.split()[0]) for line in shown.splitlines()] == [0, 1, 2, live.REACHED, live.NO_STATE]


def test_help_of_the_kubectl_plugin_speaks_of_kubectl(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/kubectl-gpu_topology"])
    assert helped(capsys, "get").startswith("usage: kubectl gpu-topology get ")


@pytest.mark.parametrize("name", ["", "Upper", "a,metadata.name!=b", "-a", "a" * 254])
def test_a_name_that_no_topology_can_have_is_refused(capsys: pytest.CaptureFixture[str], name: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["get", f"--topology={name}"])
    assert ended.value.code == 2
    assert f"argument --topology: {name!r} cannot be a RuntimeTopology's name" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_told_every_command(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [command for command in COMMANDS if command not in script] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["gpu-topology", "w"], ["watch"], id="commands"),
        pytest.param(["gpu-topology", "get", "--output", ""], ["table", "yaml", "json", "snapshot"], id="choices"),
        pytest.param(["gpu-topology", "get", "--fail-on", "H"], ["HEAVY"], id="levels"),
        pytest.param(["gpu-topology", "import", "old"], ["old.json"], id="files"),
    ],
)
def test_bash_completes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], expected: list[str]
) -> None:
    main(["completion", "bash"])
    (tmp_path / "old.json").touch()
    press_tab = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_gpu_topology; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f"{capsys.readouterr().out}\n{press_tab}", "bash", *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.split() == expected


def test_an_import_prints_manifests_and_says_apart_from_them_what_it_changed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "old.json"
    file.write_text(json.dumps({"active_gpus": [CARD]}))
    assert main(["import", str(file)]) == 0
    printed, said = capsys.readouterr()
    assert printed.startswith("---\napiVersion: runtime.ialab.dev/v1alpha1\nkind: GpuNode\n")
    assert said == f'gpu-topology: {file}: active_gpus[0]: "RX 9070" becomes rx-9070\n'


def test_an_import_of_a_file_with_faults_prints_them_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    file.write_text(json.dumps({"active_gpus": [CARD, CARD | {"vram_gb": 0}, 7], "inventory_gpus": 8}))
    assert main(["import", str(file), "--apply"]) == 1
    printed, said = capsys.readouterr()
    assert printed == ""
    assert said.splitlines() == [
        f"gpu-topology: {file}: active_gpus[1]: vram_gb must be a whole number from 1 to 16384, but it is 0",
        f"gpu-topology: {file}: active_gpus[2]: it must be an object with name, host and vram_gb, but it is 7",
        f"gpu-topology: {file}: inventory_gpus must be a list, but it is 8",
    ]


def test_an_import_of_a_file_without_cards_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    file.write_text('{"active_gpus": []}')
    assert (main(["import", str(file)]), *capsys.readouterr()) == (
        0,
        "",
        f"gpu-topology: {file}: no card is listed in it\n",
    )


def test_an_import_waits_for_no_client_of_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    file.write_text(json.dumps({"active_gpus": [CARD]}))
    code = "import sys; from controller.__main__ import main; main(['import', sys.argv[1]]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert {"kopf", "kubernetes", "aiohttp", "httpx", "shtab"} & {*done.stdout.split()} == set()
