"""Labels of spot nodes; their taints use the same keys and values."""

from kubectl_sky.facts import Facts
from kubectl_sky.plan.accelerators import Rule, Term

RULES = (
    Rule("cloud.google.com/gke-spot", ("true",)),
    Rule("karpenter.sh/capacity-type", ("spot",)),
    Rule("eks.amazonaws.com/capacityType", ("SPOT",)),
    Rule("kubernetes.azure.com/scalesetpriority", ("spot",)),
)
NOTE = "use_spot: no node is known to be a spot node; spot nodes are preferred, and any will do"


def present_rules(facts: Facts) -> tuple[Rule, ...]:
    """Return the rules that at least one cluster node meets."""
    return tuple(
        rule
        for rule in RULES
        if any(
            cluster_node.labels.get(rule.key) in rule.values for cluster_node in facts.cluster_nodes
        )
    )


def with_rules(terms: tuple[Term, ...], rules: tuple[Rule, ...]) -> tuple[Term, ...]:
    """Return the terms combined with each of the rules."""
    if not rules:
        return terms
    return tuple((*term, rule) for term in terms or ((),) for rule in rules)
