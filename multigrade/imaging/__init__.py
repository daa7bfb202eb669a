"""Images: reading and writing, the operators that degrade them, metrics, classical baselines, figures."""
