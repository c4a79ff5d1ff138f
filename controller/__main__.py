"""The command line."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Iterable, Sequence

import controller
from controller import settings
from controller.settings import Settings

logger = logging.getLogger(__name__)

SUCCESS, FAILURE, MISUSE, INTERRUPTED = 0, 1, 2, 130
"""The exit codes; misuse is words or settings that are wrong."""

_NAMES_SHOWN = 20

_PLAN_EXAMPLES = """\
examples:
  gpu-topology plan -f gpunodes.yaml --prometheus http://192.168.1.40:9090
  gpu-topology plan -f gpunodes/ --prometheus http://192.168.1.40:9090 --watch
  kubectl get gpunodes -o yaml | gpu-topology plan -f - --prometheus http://192.168.1.40:9090 -o snapshot
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
        code: int = command(settings.load(flags), **words)
    except settings.SettingsError as error:
        return _fail(str(error), MISUSE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever reads has enough; Python must not find that out again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpu-topology", description=controller.__doc__)
    parser.add_argument("--version", action="version", version=controller.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    what = "run the operator against the cluster of KUBECONFIG, or the pod's own"
    run = commands.add_parser("run", help=what, description=what)
    run.set_defaults(command=_run)
    _add_settings(run, Settings.model_fields)

    what = "print the topology of the GpuNodes in files, without any cluster"
    plan = commands.add_parser(
        "plan",
        help=what,
        description=what,
        epilog=_PLAN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.set_defaults(command=_plan)
    what = "manifests: files, folders of them, or - for standard input"
    plan.add_argument("-f", "--filename", nargs="+", action="extend", required=True, metavar="FILE", help=what)
    what = "the cards in columns (the default), the RuntimeTopology, or the plain snapshot"
    plan.add_argument("-o", "--output", choices=("table", "yaml", "json", "snapshot"), default="table", help=what)
    plan.add_argument("-w", "--watch", action="store_true", help="go on, and print each change")
    _add_settings(plan, ("prometheus_url", "poll_seconds", "target_ports", "host_labels", "target_missing_seconds"))

    what = "say why a card is judged as it is: its targets, its series, and the rule"
    explain = commands.add_parser(
        "explain",
        help=what,
        description=what,
        epilog=_EXPLAIN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explain.set_defaults(command=_explain)
    explain.add_argument("name", metavar="NAME", help="the GpuNode's name")
    what = "manifests instead of the cluster: files, folders of them, or - for standard input"
    explain.add_argument("-f", "--filename", nargs="+", action="extend", metavar="FILE", help=what)
    _add_settings(explain, ("prometheus_url", "poll_seconds", "target_ports", "host_labels"))
    return parser


def _add_settings(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    group = parser.add_argument_group("settings", f"each also as a variable, such as {settings.PREFIX}POLL_SECONDS")
    for name in names:
        field = Settings.model_fields[name]
        default = "needed" if field.is_required() else f"default {_shown(field.default)}"
        shorter = ["--prometheus"] if name == "prometheus_url" else []
        what = f"{field.description} ({default})"
        group.add_argument(f"--{name.replace('_', '-')}", *shorter, help=what, metavar="VALUE")


def _run(chosen: Settings) -> int:
    import kopf  # noqa: PLC0415 - takes a second, which only the operator should wait for

    from controller import kube, operator  # noqa: PLC0415 - as above

    kopf.configure(log_format=kopf.LogFormat.JSON if chosen.log_format == "json" else kopf.LogFormat.FULL)
    for chatty in ("httpx", "kopf.objects"):  # they tell of each request and of each change that a watch shows
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        asyncio.run(operator.run(chosen))
    except kube.KubeConfigError as error:
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


def _fail(text: str, code: int = FAILURE) -> int:
    for line in text.splitlines():
        print(f"gpu-topology: {line}", file=sys.stderr)
    return code


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


if __name__ == "__main__":
    sys.exit(main())
