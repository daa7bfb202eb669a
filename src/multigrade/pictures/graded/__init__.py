"""The paper's networks on pictures: objective, targets, training and what judges the grades."""
