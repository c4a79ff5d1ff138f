"""The judgement of all cards together: the four modes, and what each means for routing."""

from collections import Counter
from collections.abc import Iterable, Mapping

from controller.facts import Degradation, DegradationName, Directive, Mode, Phase
from controller.names import Reason

_NORMAL = DegradationName.NORMAL
DEGRADATIONS: Mapping[Mode, Degradation] = {
    Mode.MULTI_GPU: Degradation(level=0, name=_NORMAL, directives=(Directive.FULL_ROUTING,)),
    Mode.SINGLE_GPU: Degradation(level=0, name=_NORMAL),
    Mode.DEGRADED_SINGLE_GPU: Degradation(
        level=1, name=DegradationName.LIGHT, directives=(Directive.FORCE_LLAMA, Directive.PROTECT_QWEN)
    ),
    Mode.INVENTORY_ONLY: Degradation(level=2, name=DegradationName.HEAVY, directives=(Directive.BLOCK_HEAVY_ROUTES,)),
}
"""How far each mode is from the best one."""

REASONS: Mapping[Mode, Reason] = {
    Mode.MULTI_GPU: Reason.SEVERAL_CARDS_ONLINE,
    Mode.SINGLE_GPU: Reason.ONE_CARD_ONLINE,
    Mode.DEGRADED_SINGLE_GPU: Reason.CARDS_OFFLINE,
    Mode.INVENTORY_ONLY: Reason.NO_CARD_ONLINE,
}
"""Why a runtime is in a mode, in one word."""


def compute_mode(phases: Iterable[Phase]) -> Mode:
    """Compute the mode that follows from the phases of all cards, and from nothing else.

    - two or more online: multi_gpu
    - one online, and another one expected_offline or unexpected_down: degraded_single_gpu
    - one online: single_gpu
    - none online: inventory_only

    A card in phase unknown neither raises nor lowers the mode.
    """
    count = Counter(phases)
    match count[Phase.ONLINE]:
        case 0:
            return Mode.INVENTORY_ONLY
        case 1 if count[Phase.EXPECTED_OFFLINE] or count[Phase.UNEXPECTED_DOWN]:
            return Mode.DEGRADED_SINGLE_GPU
        case 1:
            return Mode.SINGLE_GPU
        case _:
            return Mode.MULTI_GPU
