"""The command line."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence

import controller
from controller import settings

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code: 0 for success, 1 for a failure, 2 for words or settings that are wrong."""
    parser = argparse.ArgumentParser(prog="gpu-topology", description=controller.__doc__)
    parser.add_argument("--version", action="version", version=controller.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run the operator against the cluster of KUBECONFIG, or the pod's own")
    for name, field in settings.Settings.model_fields.items():
        default = "needed" if field.is_required() else f"default {_shown(field.default)}"
        run.add_argument(f"--{name.replace('_', '-')}", help=f"{field.description} ({default})", metavar="VALUE")
    flags = vars(parser.parse_args(arguments))
    flags.pop("command")
    try:
        return _run(settings.load(flags))
    except settings.SettingsError as error:
        print(f"gpu-topology: {error}", file=sys.stderr)  # noqa: T201 - a command's answer
        return 2


def _run(chosen: settings.Settings) -> int:
    import kopf  # noqa: PLC0415 - takes a second, which only the operator should wait for

    from controller import kube, operator  # noqa: PLC0415 - as above

    kopf.configure(log_format=kopf.LogFormat.JSON if chosen.log_format == "json" else kopf.LogFormat.FULL)
    try:
        asyncio.run(operator.run(chosen))
    except kube.KubeConfigError as error:
        print(f"gpu-topology: {error}", file=sys.stderr)  # noqa: T201 - a command's answer
        return 1
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        logger.critical("The operator ends, to be started anew: %s: %s", type(error).__name__, error, exc_info=error)
        return 1
    return 0


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


if __name__ == "__main__":
    sys.exit(main())
