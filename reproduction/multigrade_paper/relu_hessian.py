"""Gradient and Hessian of a ReLU network in closed form, for any depth (Supplement, "Gradient and Hessian ...").

The supplement expands the blocks for depths 2 and 5 one by one. Away from kinks the masks I_j are constant, so one
line with layer indices says all of it. For sample l write

    a_j          output of layer j (a_0 = x), with a 1 appended for the bias
    Z_j          = I_j W_{j+1} Z_{j+1}, Z_D = identity: the outputs' derivative in the pre-activation of layer j
    delta_j      = Z_j r: the same for a scalar r' N, with r the loss's derivative in the outputs
    T_{jk}       = I_j W_{j+1} I_{j+1} ... W_{k-1} I_{k-1}, j < k: from pre-activation j to the input of layer k

The loss is a quadratic form in the outputs N (a sum over samples and components), with gradient r and matrix Q:

    gradient = J' r,    H = J' Q J + sum_i r_i Hess N_i
    J in (W_j, b_j)                      = a_{j-1} x Z_j
    sum_i r_i Hess N_i in (W_j, b_j; W_k) = sum_l a_{j-1} x T_{jk} x delta_k   (j < k; zero for j = k and for b_k)

where x is the tensor product. Least squares has Q = I / N; restoration has Q = I + beta B'B; a multi-scale network has
the Jacobians of its sub-networks side by side and a block-diagonal second term.

Everything is float64 numpy. Rows and columns are in the order of ``jax.flatten_util.ravel_pytree``, that is
W_1, b_1, W_2, ... with each W (inputs, outputs) row by row; the paper stacks W column by column.
"""

import dataclasses
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from multigrade.networks import MultiScaleNetwork, Network

# Samples per pass: bounds the memory of the tensors a x Z and T, which hold width^2 numbers per sample.
CHUNK = 2048


class Derivatives(NamedTuple):
    """Derivatives of a loss in M parameters, in the order of ``ravel_pytree``.

    Parameters
    ----------
    gradient : (M,)
    hessian : (M, M)
    """

    gradient: np.ndarray
    hessian: np.ndarray


@runtime_checkable
class OutputLoss(Protocol):
    """A loss as a quadratic form in the network's outputs (N, s)."""

    def slope(self, outputs: np.ndarray) -> np.ndarray:
        """r = the derivative of the loss in the outputs, (N, s)."""
        ...

    def curvature(self, directions: np.ndarray) -> np.ndarray:
        """Q applied to directions (N, s, M)."""
        ...


@dataclasses.dataclass(frozen=True)
class SquaredError:
    """1/(2N) sum_l ||y_l - N(x_l)||^2, eq. (DNNs loss): r = (N - y) / N, Q = I / N.

    Parameters
    ----------
    targets : y, (N, s)
    """

    targets: np.ndarray

    def slope(self, outputs):
        """r = the derivative of the loss in the outputs, (N, s)."""
        return (outputs - self.targets) / len(self.targets)

    def curvature(self, directions):
        """Q applied to directions (N, s, M)."""
        return directions / len(self.targets)


@dataclasses.dataclass(frozen=True)
class DenoisingError:
    """1/2 ||f - g||^2 + beta/2 ||u - B g||^2 with g = g_0 + epsilon N, pixels in row-major order (Appendix C).

    Q = epsilon^2 (I + beta B'B), r = epsilon (g - f + beta B'(B g - u)).

    Parameters
    ----------
    image : f, (rows, columns)
    splitting : u, (2, rows, columns): differences down and differences right
    beta : weight of the splitting
    previous : g_0, the sum of the grades before; 0 in the first one
    scale : epsilon, 1 in the first grade
    """

    image: np.ndarray
    splitting: np.ndarray
    beta: float
    previous: np.ndarray | float = 0.0
    scale: float = 1.0

    def slope(self, outputs):
        """r = the derivative of the loss in the outputs, (N, s)."""
        given, splitting, previous = (np.asarray(a, float) for a in (self.image, self.splitting, self.previous))
        image = previous + self.scale * outputs.reshape(given.shape)
        residual = image - given + self.beta * differences_adjoint(differences(image) - splitting)
        return self.scale * residual.reshape(outputs.shape)

    def curvature(self, directions):
        """Q applied to directions (N, s, M)."""
        fields = directions.reshape(*self.image.shape, -1)
        result = fields + self.beta * differences_adjoint(differences(fields))
        return self.scale**2 * result.reshape(directions.shape)


def differences(image: np.ndarray) -> np.ndarray:
    """B: forward differences down and right of (rows, columns, ...), stacked first; zero in the last row or column."""
    out = np.zeros((2, *image.shape))
    out[0, :-1] = image[1:] - image[:-1]
    out[1, :, :-1] = image[:, 1:] - image[:, :-1]
    return out


def differences_adjoint(fields: np.ndarray) -> np.ndarray:
    """B': minus the divergence."""
    down, right = fields[0, :-1], fields[1, :, :-1]
    out = np.zeros(fields.shape[1:])
    out[:-1] -= down
    out[1:] += down
    out[:, :-1] -= right
    out[:, 1:] += right
    return out


def relu_hessian(network: Network | MultiScaleNetwork, params, x, loss: OutputLoss | np.ndarray) -> Derivatives:
    """Gradient J' r and Hessian J' Q J + sum_i r_i Hess N_i of the loss of a ReLU network at inputs x (N, d).

    At a kink (a pre-activation exactly 0) the mask is 0, as everywhere in this package.

    Parameters
    ----------
    network : a network with ReLU activations
    params : its parameters
    x : inputs, (points, features)
    loss : targets (points, outputs) for least squares, or a quadratic form in the outputs such as ``DenoisingError``

    Returns
    -------
    Derivatives
        Gradient and Hessian, in the order of ``ravel_pytree``.
    """
    x, loss = _two_dimensional("x", x), loss.targets if isinstance(loss, SquaredError) else loss
    parts = _parts(network, params, x)
    outputs = np.sum([_forward(layers, inputs)[-1] for layers, inputs in parts], axis=0)
    form: OutputLoss = loss if isinstance(loss, OutputLoss) else SquaredError(_two_dimensional("loss", loss))
    if isinstance(form, SquaredError):
        if form.targets.shape != outputs.shape:
            raise ValueError(f"loss must hold targets of shape {outputs.shape}; got {form.targets.shape}")
        return _sum_over_chunks(parts, form.slope(outputs), form)
    return _derivatives(parts, form.slope(outputs), form)


def _sum_over_chunks(parts, slope, loss: SquaredError) -> Derivatives:
    def chunk(start):
        rows = slice(start, start + CHUNK)
        return _derivatives([(layers, inputs[rows]) for layers, inputs in parts], slope[rows], loss)

    gradient, hessian = chunk(0)
    for start in range(CHUNK, len(slope), CHUNK):
        more = chunk(start)
        gradient += more.gradient
        hessian += more.hessian
    return Derivatives(gradient, hessian)


def _derivatives(parts, slope, loss: OutputLoss) -> Derivatives:
    jacobian = np.concatenate([_jacobian(layers, inputs) for layers, inputs in parts], axis=-1)
    flat = jacobian.reshape(-1, jacobian.shape[-1])
    hessian = flat.T @ loss.curvature(jacobian).reshape(flat.shape)
    start = 0
    for layers, inputs in parts:
        stop = start + sum(weight.size + bias.size for weight, bias in layers)
        _add_second_derivatives(hessian[start:stop, start:stop], layers, inputs, slope)
        start = stop
    return Derivatives(flat.T @ slope.reshape(-1), hessian)


def _parts(network, params, x):
    """Plain ReLU networks whose outputs sum to the network's: (layers in float64, their inputs)."""
    plain = network.sub if isinstance(network, MultiScaleNetwork) else network
    if not isinstance(plain, Network) or plain.activation != "relu":
        raise ValueError(f"network must be a ReLU network, plain or multi-scale; got {network!r}")
    scaled = zip(params, network.scales, strict=True) if isinstance(network, MultiScaleNetwork) else [(params, 1.0)]

    def part(layers, scale):
        inputs = scale * x
        if plain.encoding:
            with jax.enable_x64(True):
                inputs = np.asarray(plain.encoding(jnp.asarray(inputs)))
        return [tuple(np.asarray(a, np.float64) for a in layer) for layer in layers], inputs

    return [part(layers, scale) for layers, scale in scaled]


def _two_dimensional(name, array):
    array = np.asarray(array, np.float64)
    if array.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional, one row per sample; got shape {array.shape}")
    return array


def _forward(layers, inputs) -> list[np.ndarray]:
    """a_0, ..., a_{D-1} and the output."""
    values = [inputs]
    for weight, bias in layers[:-1]:
        values.append(np.maximum(values[-1] @ weight + bias, 0))
    return [*values, values[-1] @ layers[-1][0] + layers[-1][1]]


def _with_one(a):
    return np.concatenate([a, np.ones((len(a), 1))], axis=1)


def _backward(layers, values, last) -> list[np.ndarray]:
    """Z_1, ..., Z_D from Z_D = ``last`` (N, ..., s), by Z_j = I_j W_{j+1} Z_{j+1}."""
    signals = [last]
    for (weight, _), value in zip(layers[:0:-1], values[-2:0:-1], strict=True):
        mask = (value > 0).reshape(len(value), *(1,) * (last.ndim - 2), -1)
        signals.append((signals[-1] @ weight.T) * mask)
    return signals[::-1]


def _jacobian(layers, inputs) -> np.ndarray:
    """J (N, s, M)."""
    values = _forward(layers, inputs)
    num_rows, num_outputs = values[-1].shape
    identity = np.broadcast_to(np.eye(num_outputs), (num_rows, num_outputs, num_outputs))
    signals = _backward(layers, values, identity)
    blocks = [
        _with_one(a)[:, None, :, None] * z[:, :, None, :] for a, z in zip(values[:-1], signals, strict=True)
    ]  # (N, s, d_{j-1} + 1, d_j)
    return np.concatenate([block.reshape(num_rows, num_outputs, -1) for block in blocks], axis=-1)


def _add_second_derivatives(hessian, layers, inputs, slope) -> None:
    """Add sum_i r_i Hess N_i to ``hessian`` (M, M) in place."""
    values = _forward(layers, inputs)
    deltas = _backward(layers, values, slope)
    ends = np.cumsum([weight.size + bias.size for weight, bias in layers])
    starts = ends - [weight.size + bias.size for weight, bias in layers]
    masks = [(value > 0).astype(np.float64) for value in values[1:-1]]
    for j, mask in enumerate(masks):
        transfer = mask[:, :, None] * np.eye(mask.shape[1])  # T_{j,j+1}
        rows = slice(starts[j], ends[j])
        for k in range(j + 1, len(layers)):
            block = _contract(_with_one(values[j]), transfer, deltas[k])
            columns = slice(starts[k], starts[k] + layers[k][0].size)  # W_k; b_k multiplies nothing below it
            hessian[rows, columns] += block
            hessian[columns, rows] += block.T
            if k < len(layers) - 1:
                transfer = (transfer @ layers[k][0]) * masks[k][:, None, :]


def _contract(a, transfer, delta) -> np.ndarray:
    """sum_l a_p T_qu delta_v as a matrix over ((p, q), (u, v)): one matrix product, samples inside."""
    num_rows, (p, q, u, v) = len(a), (a.shape[1], *transfer.shape[1:], delta.shape[1])
    outer = (a[:, :, None] * delta[:, None, :]).reshape(num_rows, -1)
    product = outer.T @ transfer.reshape(num_rows, -1)
    return product.reshape(p, v, q, u).transpose(0, 2, 3, 1).reshape(p * q, u * v)
