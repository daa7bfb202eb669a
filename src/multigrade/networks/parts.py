"""A grade as two parts, a trunk (inputs to features) and a head (features to outputs), with what is not trained.

    network.init(key)                 -> Variables(trained, state)
    network.hidden(variables, x)      -> features, in inference mode: running means as they are, no dropout
    network.output(variables, h)      -> outputs, in inference mode
    network.train(variables, x, key)  -> outputs in training mode, and the next state

Rows are the first axis of inputs, features and outputs; features may have any shape or be a pytree. The frozen features
that the next grade reads are those of inference mode.
"""

import dataclasses
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
from jax import Array


class Variables(NamedTuple):
    """The parameters of a network some of which are not trained.

    Parameters
    ----------
    trained : what has a gradient
    state : what the network itself moves while it is trained, such as running means
    """

    trained: Any
    state: Any = ()


@runtime_checkable
class HasTrainingMode(Protocol):
    """A network whose parameters are ``Variables``, with another mode while it is trained."""

    def train(self, variables: Variables, x: Any, key: Array) -> tuple[Array, Any]: ...


class TrunkAndHead:
    """What networks of two parts share. A kind of them provides ``start`` and ``apply`` of each part (0, 1)."""

    def start(self, part: int, key: Array) -> tuple[Any, Any]:
        """What is trained of a part, and its state, at first."""
        raise NotImplementedError

    def apply(self, part: int, trained: Any, state: Any, x: Any, key: Array | None) -> tuple[Any, Any]:
        """What a part makes of ``x``, and its next state; ``key`` is None in inference mode."""
        raise NotImplementedError

    def init(self, key: Array) -> Variables:
        """Random initial parameters of trunk and head."""
        parts = [self.start(part, own) for part, own in enumerate(jax.random.split(key))]
        return Variables(*(tuple(kind) for kind in zip(*parts, strict=True)))

    def hidden(self, params: Variables, x: Any) -> Any:
        """The features that the next grade reads."""
        return self.apply(0, params.trained[0], params.state[0], x, None)[0]

    def output(self, params: Variables, features: Any) -> Array:
        """The outputs for the features of ``hidden``."""
        return self.apply(1, params.trained[1], params.state[1], features, None)[0]

    def __call__(self, params: Variables, x: Any) -> Array:
        return self.output(params, self.hidden(params, x))

    def train(self, variables: Variables, x: Any, key: Array) -> tuple[Array, Any]:
        """The outputs in training mode, and the next state."""
        states = []
        for part, own in enumerate(jax.random.split(key)):
            x, state = self.apply(part, variables.trained[part], variables.state[part], x, own)
            states.append(state)
        return x, tuple(states)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class EndToEnd(TrunkAndHead):
    """The trunks of ``networks`` one after the other and the head of the last: the same layers as one grade (SGDL)."""

    networks: tuple[TrunkAndHead, ...]

    def start(self, part: int, key: Array) -> tuple[Any, Any]:
        if part == 1:
            return self.networks[-1].start(1, key)
        keys = jax.random.split(key, len(self.networks))
        parts = [network.start(0, own) for network, own in zip(self.networks, keys, strict=True)]
        return tuple(trained for trained, _ in parts), tuple(state for _, state in parts)

    def apply(self, part: int, trained: Any, state: Any, x: Any, key: Array | None) -> tuple[Any, Any]:
        if part == 1:
            return self.networks[-1].apply(1, trained, state, x, key)
        states = []
        for index, network in enumerate(self.networks):
            own = None if key is None else jax.random.fold_in(key, index)
            x, after = network.apply(0, trained[index], state[index], x, own)
            states.append(after)
        return x, tuple(states)
