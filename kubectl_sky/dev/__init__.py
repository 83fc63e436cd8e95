"""Development pods, which stay after setup, and the ssh configuration that reaches them."""
