"""What fair share decides from PriorityClasses and PodGroups. Pure."""
