"""The authors' runs as anybody would write them: a loop of single steps, with nothing of the package in it.

Keys by the original threefry, one chain of splits per network, the derivative
that ``jnp.maximum`` has at 0, one step of gradient descent at a time.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np


def chain(key, widths):
    """He-normal weights, zero biases; every layer splits the key twice and uses the first part."""
    params = []
    for inputs, outputs in itertools.pairwise(widths):
        key, sub = jax.random.split(key)
        params.append((jax.random.normal(sub, (inputs, outputs)) * jnp.sqrt(2 / inputs), jnp.zeros(outputs)))
        key, sub = jax.random.split(key)
    return params, key


def forward(params, x):
    """The output of a network, and its last hidden layer."""
    for weight, bias in params[:-1]:
        x = jnp.maximum(x @ weight + bias, 0)
    weight, bias = params[-1]
    return x @ weight + bias, x


def descend(loss, params, rate, steps):
    step = jax.jit(lambda params: jax.tree.map(lambda p, g: p - rate * g, params, jax.grad(loss)(params)))
    for _ in range(steps):
        params = step(params)
    return params


def synthetic(widths_of_grades, x, y, rate, steps):
    """The training loss after each grade of setting 1 or 2."""
    losses, features, left = [], jnp.asarray(x), jnp.asarray(y)
    for widths in widths_of_grades:
        params, _ = chain(jax.random.PRNGKey(42), widths)

        def loss(params, features=features, left=left):
            return 0.5 * jnp.mean((forward(params, features)[0] - left) ** 2)

        params = descend(loss, params, rate, steps)
        losses.append(float(loss(params)))
        output, features = forward(params, features)
        left = left - output
    return losses


def multiscale(widths, scales, x, y, rate, steps):
    key, params = jax.random.PRNGKey(42), []
    for _ in scales:
        part, key = chain(key, widths)
        params.append(part)

    def loss(params):
        output = sum(forward(part, scale * x)[0] for part, scale in zip(params, scales, strict=True))
        return 0.5 * jnp.mean((output - y) ** 2)

    return float(loss(descend(loss, params, rate, steps)))


def differences(image):
    """Backward differences down and along; the first row and the first column are 0."""
    down = jnp.zeros_like(image).at[1:].set(image[1:] - image[:-1])
    along = jnp.zeros_like(image).at[:, 1:].set(image[:, 1:] - image[:, :-1])
    return down, along


def denoising(widths_of_grades, image, noise, rate, beta, weight, alpha, steps):
    """The recorded loss and the PSNR after each grade."""
    height, width = image.shape
    across, down = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    features = jnp.asarray(np.stack([across.ravel(), down.ravel()], 1), jnp.float32)
    drawn = jax.random.normal(jax.random.PRNGKey(0), image.shape)
    noisy = jnp.asarray(image, jnp.float32) + np.float32(noise / 255) * drawn
    before, u, found = jnp.zeros(image.shape), differences(jnp.zeros(image.shape)), []

    def soft(z, threshold):
        return jnp.sign(z) * jnp.maximum(jnp.abs(z) - threshold, 0)

    for widths in widths_of_grades:
        params, _ = chain(jax.random.PRNGKey(42), widths)
        of_before = differences(before)

        def output(params, features=features):
            return forward(params, features)[0].reshape(image.shape)

        def move(u, params, output=output):
            of_output = differences(output(params))
            return [soft(alpha * d + (1 - alpha) * v, alpha * weight / beta) for d, v in zip(of_output, u, strict=True)]

        def loss(params, u, output=output, before=before, of_before=of_before):
            now = output(params)
            coupling = sum(jnp.sum((d - (v - b)) ** 2)
                           for d, v, b in zip(differences(now), u, of_before, strict=True))  # fmt: skip
            return 0.5 * jnp.sum((now - (noisy - before)) ** 2) + 0.5 * beta * coupling

        @jax.jit
        def step(params, u, move=move, loss=loss):
            u = move(u, params)
            return jax.tree.map(lambda p, g: p - rate * g, params, jax.grad(loss)(params, u)), u

        for _ in range(steps):
            params, u = step(params, u)
        moved = move(u, params)  # a record looks at the loss after the next proximal step
        value = loss(params, moved) + weight * sum(jnp.sum(jnp.abs(v)) for v in moved)
        before, features = before + output(params), forward(params, features)[1]
        found.append((float(value), float(-10 * jnp.log10(jnp.mean((before - image) ** 2)))))
    return found
