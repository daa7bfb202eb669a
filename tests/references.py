"""Slow, plain references in float64 numpy, written from the formulas alone."""

import numpy as np


def forward(layers, x):
    """Activations of a ReLU network: [x, H_1, ..., H_{D-1}, output]."""
    activations = [x]
    for index, (weight, bias) in enumerate(layers):
        z = activations[-1] @ weight + bias
        activations.append(np.maximum(z, 0) if index + 1 < len(layers) else z)
    return activations


def gradient(layers, x, y):
    """Loss 1/(2N) sum ||y - N(x)||^2 and its gradient by the chain rule, layer by layer."""
    activations = forward(layers, x)
    delta = (activations[-1] - y) / len(x)
    loss = 0.5 * np.sum((activations[-1] - y) ** 2) / len(x)
    gradients = []
    for index in reversed(range(len(layers))):
        gradients.append((activations[index].T @ delta, delta.sum(axis=0)))
        if index:
            delta = (delta @ layers[index][0].T) * (activations[index] > 0)
    return loss, gradients[::-1]


def gradient_descent(layers, x, y, rate, num_steps):
    """Loss before every step, and the layers after the last."""
    losses = []
    for _ in range(num_steps):
        loss, gradients = gradient(layers, x, y)
        losses.append(loss)
        layers = [(w - rate * gw, b - rate * gb) for (w, b), (gw, gb) in zip(layers, gradients, strict=True)]
    return np.array(losses), layers
