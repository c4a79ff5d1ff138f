"""The commands of the lab, as python -m lab takes them."""

import argparse
import io
import os
import sys

from lab import background, clusters, tools
from lab.demo import demo
from lab.exporters import State
from lab.processes import LabError


def run() -> None:
    """Run the command that the command line names."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # progress is worth nothing when it comes late
    arguments = _parser().parse_args()
    try:
        _run(arguments)
    except LabError as error:
        sys.exit(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains once more at its end
        sys.exit("Nobody reads the output any more, so this ended early")


def _run(arguments: argparse.Namespace) -> None:
    match arguments.command:
        case "build":
            _build(everything=not arguments.demo, context=arguments.context)
        case "demo":
            _build(everything=False, context=arguments.context)
            demo(arguments.context)
        case "up":
            _build(everything=False, context=arguments.context)
            background.up(arguments.context)
        case "serve":
            background.serve(arguments.context)
        case "down":
            background.down()
        case node:
            background.switch(node, State(arguments.state))


def _build(*, everything: bool, context: str | None) -> None:
    """Build what is missing, in the foreground where a person sees how far it is."""
    tools.kubectl()
    if everything or not (context or clusters.kind_is_here()):
        tools.etcd()
        tools.kube_apiserver()
    tools.prometheus()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description="The lab of the design contract on one machine.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="build the programs that the tests need")
    build.add_argument("--demo", action="store_true", help="only those that demo and up need")
    with_context = {
        "build": build,
        "demo": commands.add_parser("demo", help="play a day of the lab and check it"),
        "up": commands.add_parser("up", help="start the lab in the background"),
        "serve": commands.add_parser("serve", help="be the lab in the background (up does this)"),
    }
    for command in with_context.values():
        command.add_argument("--context", help="use the cluster of this kubeconfig context")
    commands.add_parser("down", help="stop the lab in the background")
    for node in background.NODES:
        switch = commands.add_parser(node, help=f"switch {node} of the lab in the background")
        switch.add_argument("state", choices=[state.value for state in State])
    return parser
