"""Every table and figure of the paper as jobs: catalogue, experiments, store, executors, claims."""
