"""Upload local files to the nodes of a task: select, pack and send them."""
