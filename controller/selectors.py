"""Which cards a topology's selector picks, as Kubernetes reads label selectors."""

from collections.abc import Mapping

from controller.facts import LabelRequirement, LabelSelector, Operator


def picks(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Tell whether all requirements hold; none at all hold for everything."""
    if selector is None:
        return True
    wanted = selector.match_labels or {}
    return wanted.items() <= labels.items() and all(_holds(one, labels) for one in selector.match_expressions or ())


def _holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement.key), requirement.values or ()
    match requirement.operator:
        case Operator.IN:
            return value is not None and value in values
        case Operator.NOT_IN:
            return value is None or value not in values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
