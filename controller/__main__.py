"""The command line."""

import argparse
import asyncio
import logging
import os
import re
import sys
from collections.abc import Callable, Container, Coroutine, Sequence
from pathlib import Path
from typing import Any

import controller
from controller import names, settings, views
from controller.facts import Observation, SourceFailure
from controller.settings import Settings
from controller.texts import bounded

logger = logging.getLogger(__name__)

SUCCESS, FAILURE, MISUSE, INTERRUPTED = 0, 1, 2, 130
"""The exit codes of every command, beside those of `live`; misuse is words or settings that are wrong."""

_LINE_LIMIT = 2048
_TOPOLOGY_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

_OF_PROMETHEUS = [
    name for name in Settings.model_fields if name.startswith("prometheus_") or name in settings.OF_PROMETHEUS
]
"""What says how Prometheus is asked, which every command that asks it needs."""
_NAMES_SHOWN = 20

_PLAN_EXAMPLES = """\
examples:
  gpu-topology plan -f gpunodes.yaml --prometheus http://192.168.1.40:9090
  gpu-topology plan -f gpunodes/ --prometheus http://192.168.1.40:9090 --watch
  kubectl get gpunodes -o yaml | gpu-topology plan -f - --prometheus http://192.168.1.40:9090 -o snapshot

exit codes:
  0    Prometheus has answered
  1    it has not, or the manifests cannot be read
  2    the words of the command or the settings are wrong
  130  interrupted with Ctrl-C
"""

_IMPORT_WHAT = """\
Turn the old hand-kept JSON file into GpuNode manifests, one for each card in active_gpus, inventory_gpus and
unexpected_down. Only what people declare is taken over: name, host, vram_gb and expected_offline. The mode, each
card's status and its readings are observed: the operator finds them itself. An unknown key of a card becomes the
annotation runtime.ialab.dev/imported.KEY. Names that Kubernetes does not take are made legal, and cards of one name
go by their hosts; what was renamed or left out is said on standard error. A file with any fault is refused as a whole.
"""

_IMPORT_EXAMPLES = """\
examples:
  gpu-topology import topology.json > gpunodes.yaml
  gpu-topology import topology.json | kubectl diff --server-side -f -
  gpu-topology import topology.json --apply

exit codes:
  0    all is well
  1    the file or the cluster does not allow it, for the reasons on standard error
  2    the words of the command are wrong
"""

_EXIT_CODES = """\
exit codes:
  0    the state is known
  1    the cluster cannot be asked
  2    the words of the command are wrong
"""
_REACHED = "  3    the degradation is at the level of --fail-on, or above\n"
_NO_STATE = "  4    there is no state to go by: no such RuntimeTopology, or no mode in it yet\n"

_EXPORT_EXAMPLES = f"""\
examples:
  gpu-topology export > topology.json
  gpu-topology export --topology upstairs | jq .mode

{_EXIT_CODES}{_NO_STATE}"""

_GET_EXAMPLES = f"""\
examples:
  gpu-topology get
  gpu-topology get --output json | jq .status.degradation.directives
  gpu-topology get --fail-on HEAVY > /dev/null || echo "no heavy routes"

{_EXIT_CODES}{_REACHED}{_NO_STATE}"""

_WATCH_EXAMPLES = f"""\
examples:
  gpu-topology watch
  gpu-topology watch --output snapshot | jq --unbuffered -c .mode
  gpu-topology watch --fail-on LIGHT > /dev/null; echo "a card is off"

exit codes:
  1    the cluster cannot be asked at the start; later it is waited for
  2    the words of the command are wrong
{_REACHED}  130  interrupted with Ctrl-C
"""

_COMPLETION_EXAMPLES = """\
examples:
  source <(gpu-topology completion bash)
  gpu-topology completion zsh > "${fpath[1]}/_gpu-topology"
  gpu-topology completion fish > ~/.config/fish/completions/gpu-topology.fish
"""

_DISCOVER_EXAMPLES = """\
examples:
  gpu-topology discover --prometheus http://192.168.1.40:9090 > gpunodes.yaml
  gpu-topology discover --prometheus http://192.168.1.40:9090 | gpu-topology plan -f - --prometheus http://192.168.1.40:9090
"""


_EXPLAIN_EXAMPLES = """\
examples:
  gpu-topology explain rx9070 --prometheus http://192.168.1.40:9090
  gpu-topology explain rx9070 -f gpunodes.yaml --prometheus http://192.168.1.40:9090
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    words = vars(_parser().parse_args(arguments))
    command = words.pop("command")
    flags = {name: words.pop(name) for name in Settings.model_fields if name in words}
    try:
        chosen = {"chosen": settings.load(flags)} if flags else {}
        code: int = command(**chosen, **words)
    except settings.SettingsError as error:
        return _fail(str(error), MISUSE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever reads has enough; Python must not find that out again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    return code


def _parser(complete_files: object = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, with a hint for shells on how to complete a file's name."""
    as_plugin = Path(sys.argv[0]).name.startswith("kubectl-") and not complete_files
    name = "kubectl gpu-topology" if as_plugin else "gpu-topology"
    parser = argparse.ArgumentParser(prog=name, description=controller.__doc__)
    parser.add_argument("--version", action="version", version=controller.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    what = "run the operator against the cluster of KUBECONFIG, or the pod's own"
    run = commands.add_parser("run", help=what, description=what)
    run.set_defaults(command=_run)
    _add_settings(run, Settings.model_fields)

    what = "print the topology of the GpuNodes in files, without any cluster"
    plan = _add(commands, "plan", _plan, what, _PLAN_EXAMPLES)
    what = "manifests: files, folders of them, or - for standard input"
    files = plan.add_argument("-f", "--filename", nargs="+", action="extend", required=True, metavar="FILE", help=what)
    files.complete = complete_files  # type: ignore[attr-defined]
    _add_output(plan)
    plan.add_argument("-w", "--watch", action="store_true", help="go on, and print each change")
    judged_by = ("target_ports", "host_labels", "profiles_file")
    _add_settings(plan, [*_OF_PROMETHEUS, *judged_by, "target_missing_seconds"])

    what = "say why a card is judged as it is: its targets, its series, and the rule"
    explain = _add(commands, "explain", _explain, what, _EXPLAIN_EXAMPLES)
    explain.add_argument("name", metavar="NAME", help="the GpuNode's name")
    what = "manifests instead of the cluster: files, folders of them, or - for standard input"
    files = explain.add_argument("-f", "--filename", nargs="+", action="extend", metavar="FILE", help=what)
    files.complete = complete_files  # type: ignore[attr-defined]
    _add_settings(explain, [*_OF_PROMETHEUS, *judged_by])

    what = "print a GpuNode, ready to apply, for each card that Prometheus shows"
    discover = _add(commands, "discover", _discover, what, _DISCOVER_EXAMPLES)
    _add_settings(discover, [*_OF_PROMETHEUS, "target_ports", "profiles_file"])

    what = "print the topology of the cluster of KUBECONFIG"
    get = _add(commands, "get", _get, what, _GET_EXAMPLES)
    what = "print the topology of the cluster of KUBECONFIG, and again at each change"
    watch = _add(commands, "watch", _watch, what, _WATCH_EXAMPLES)
    for command in (get, watch):
        _add_topology(command)
        _add_output(command)
        what = "exit with 3 where the degradation is at this level or above; watch goes on until then"
        command.add_argument("--fail-on", choices=("LIGHT", "HEAVY"), help=what)

    what = "write the plain snapshot of the cluster of KUBECONFIG, for programs that read the old JSON file"
    _add_topology(_add(commands, "export", _export, what, _EXPORT_EXAMPLES))

    what = "turn the old JSON file into GpuNode manifests"
    take = _add(commands, "import", _import, what, _IMPORT_EXAMPLES, _IMPORT_WHAT)
    files = take.add_argument("file", metavar="FILE", help="the old file, or - for standard input")
    files.complete = complete_files  # type: ignore[attr-defined]
    what = "apply them to the cluster of KUBECONFIG instead of printing them, all or none"
    take.add_argument("--apply", action="store_true", help=what)

    what = "print what makes a shell complete these commands"
    completion = _add(commands, "completion", _completion, what, _COMPLETION_EXAMPLES)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that shall read it")
    return parser


def _add(  # noqa: PLR0913, PLR0917 - a command is all of this
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    command: Callable[..., int],
    what: str,
    examples: str,
    description: str = "",
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=what,
        description=description or what,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=command)
    return parser


def _add_output(parser: argparse.ArgumentParser) -> None:
    what = "the cards in columns (the default), the RuntimeTopology, or the plain snapshot"
    parser.add_argument("-o", "--output", choices=views.OUTPUTS, default="table", help=what)


def _add_topology(parser: argparse.ArgumentParser) -> None:
    what = f"the RuntimeTopology (default {names.DEFAULT_TOPOLOGY})"
    parser.add_argument("--topology", default=names.DEFAULT_TOPOLOGY, type=_name, metavar="NAME", help=what)


def _name(text: str) -> str:
    if not _TOPOLOGY_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be a RuntimeTopology's name")
    return text


def _add_settings(parser: argparse.ArgumentParser, chosen: Container[str]) -> None:
    group = parser.add_argument_group("settings", f"each also as a variable, such as {settings.PREFIX}POLL_SECONDS")
    for name, field in Settings.model_fields.items():
        if name not in chosen or name in settings.WITHOUT_FLAG:
            continue
        default = "needed" if name == "prometheus_url" else f"default {_shown(field.default)}"
        shorter = ["--prometheus"] if name == "prometheus_url" else []
        what = f"{field.description} ({default})"
        switch: dict[str, Any] = {"nargs": "?", "const": "true"} if field.annotation is bool else {}
        group.add_argument(f"--{name.replace('_', '-')}", *shorter, help=what, metavar="VALUE", **switch)


def _run(chosen: Settings) -> int:
    import kopf  # noqa: PLC0415 - takes a second, which only the operator should wait for

    from controller import kube, operator, server  # noqa: PLC0415 - as above

    kopf.configure(log_format=kopf.LogFormat.JSON if chosen.log_format == "json" else kopf.LogFormat.FULL)
    for chatty in ("httpx", "kopf.objects"):  # they tell of each request and of each change that a watch shows
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        asyncio.run(operator.run(chosen))
    except (kube.KubeConfigError, server.ListenError) as error:
        return _fail(str(error))
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        logger.critical("The operator ends, to be started anew: %s: %s", type(error).__name__, error, exc_info=error)
        return FAILURE
    return SUCCESS


def _plan(chosen: Settings, *, filename: Sequence[str], output: str, watch: bool) -> int:
    from controller import manifests, plan  # noqa: PLC0415 - the operator reads no files

    try:
        declared = manifests.read(filename)
    except manifests.ManifestError as error:
        return _fail(str(error))
    if not declared.nodes:
        return _fail(f"no GpuNode is declared in {', '.join(filename)}")
    answered = asyncio.run(plan.run(plan.Plan(declared, chosen.policy), chosen, output, watch=watch))
    return SUCCESS if answered else FAILURE


def _explain(chosen: Settings, *, name: str, filename: Sequence[str] | None) -> int:
    from controller import explain, manifests  # noqa: PLC0415 - the operator needs neither

    if filename:
        try:
            nodes = manifests.read(filename).nodes
        except manifests.ManifestError as error:
            return _fail(str(error))
    else:
        from controller import kube  # noqa: PLC0415 - takes a second, and needs a cluster

        try:
            nodes = asyncio.run(kube.list_nodes())
        except (kube.KubeConfigError, kube.ApiError) as error:
            return _fail(str(error))
    node = next((node for node in nodes if node.name == name), None)
    if node is None:
        names = [node.name for node in nodes]
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        return _fail(f"there is no GpuNode {name!r}; there is {', '.join(names[:_NAMES_SHOWN]) or 'none'}{more}")
    return SUCCESS if asyncio.run(explain.run(node, nodes, chosen)) else FAILURE


def _discover(chosen: Settings) -> int:
    from controller import discovery  # noqa: PLC0415 - the operator declares no cards
    from controller.prometheus import Prometheus  # noqa: PLC0415 - httpx takes a moment

    async def ask() -> Observation:
        async with Prometheus(chosen.source, chosen.timeout_seconds, chosen.series) as prometheus:
            return await prometheus.survey()

    observation = asyncio.run(ask())
    if isinstance(observation, SourceFailure):
        return _fail(observation.message)
    proposals, left_out = discovery.propose(observation, chosen.policy)
    for proposal in proposals:
        print(discovery.manifest(proposal), end="")
    for what in left_out:
        print(f"gpu-topology: left out {what}", file=sys.stderr)
    if observation.partial:
        print(f"gpu-topology: the answer is not whole: {observation.partial}", file=sys.stderr)
    return SUCCESS if proposals else _fail(f"no card is recognised among {len(observation.targets)} targets")


def _get(*, topology: str, output: str, fail_on: str | None) -> int:
    from controller import live  # noqa: PLC0415 - takes half a second, which only these commands should wait for

    return _ask(live.get(topology, output, fail_on))


def _watch(*, topology: str, output: str, fail_on: str | None) -> int:
    from controller import live  # noqa: PLC0415 - as above

    return _ask(live.watch(topology, output, fail_on))


def _export(*, topology: str) -> int:
    return _get(topology=topology, output="snapshot", fail_on=None)


def _import(*, file: str, apply: bool) -> int:
    from controller import importing  # noqa: PLC0415 - only this command reads such a file

    try:
        imported = importing.convert(importing.read(file), "standard input" if file == "-" else file)
    except importing.ImportFileError as error:
        return _fail(str(error))
    for note in imported.notes or ([] if imported.manifests else [f"{file}: no card is listed in it"]):
        print(f"gpu-topology: {note}", file=sys.stderr)
    if apply:
        from controller import live  # noqa: PLC0415 - as above

        return _ask(live.apply(imported.manifests))
    if imported.manifests:
        print(views.as_yaml(imported.manifests))
    return SUCCESS


def _completion(*, shell: str) -> int:
    import shtab  # noqa: PLC0415 - only a shell's start needs it

    print(shtab.complete(_parser(shtab.FILE), shell))
    return SUCCESS


def _ask(command: Coroutine[None, None, int]) -> int:
    """Let a command speak with the cluster; return its exit code."""
    from controller import kube  # noqa: PLC0415 - as above

    try:
        return asyncio.run(command)
    except (kube.ApiError, kube.KubeConfigError) as error:
        return _fail(bounded(str(error), _LINE_LIMIT))


def _fail(text: str, code: int = FAILURE) -> int:
    for line in text.splitlines():
        print(f"gpu-topology: {line}", file=sys.stderr)
    return code


def _shown(value: object) -> str:
    shown = ",".join(map(str, value)) if isinstance(value, tuple | dict) else "" if value is None else str(value)
    return shown.lower() if isinstance(value, bool) else shown or "none"


if __name__ == "__main__":
    sys.exit(main())
