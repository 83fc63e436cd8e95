"""Local files on their way to the nodes: what is taken, how it is packed, how it is delivered."""
