"""DeepXDE beside grades on the same problems, in the same time (optional: pip install deepxde torch).

    DDE_BACKEND=pytorch python -m benchmarks.deepxde                # as long as our own solution took, and 10 times
    DDE_BACKEND=pytorch python -m benchmarks.deepxde --factors 1,100

The settings are those of DeepXDE's own examples for these equations (examples/pinn_forward of its repository). Burgers:
2,540 points inside, 80 on the boundary, 160 at the start, three layers of 20 tanh neurons, Adam at 1e-3 for 15,000
steps and then L-BFGS. Helmholtz: 10 points per wavelength along a side, three layers of 150 sine neurons, Adam at 1e-3.
``helmholtz example`` is the example itself (wave number 4 pi, u = sin(4 pi x) sin(4 pi y) from its source, u = 0 on the
boundary by x (1 - x) y (1 - y) times the network); ``helmholtz 50`` is our problem, whose u does not vanish on the
boundary, so that the boundary is a loss times 100, as in the example without the factor. Seconds are those of one core
(process time, one thread), our compilation included, DeepXDE's left out. Where L-BFGS follows, Adam ends after four
fifths of the time at the latest.
"""

import argparse
import time

import jax.numpy as jnp
import numpy as np

from multigrade.equations import READY, Box, Condition, Problem, Ready, laplacian, solve

BURGERS_VISCOSITY = 0.01 / np.pi


def burgers(seconds: float):
    import deepxde as dde

    def equation(x, u):
        u_x, u_t = (dde.grad.jacobian(u, x, i=0, j=axis) for axis in (0, 1))
        return u_t + u * u_x - BURGERS_VISCOSITY * dde.grad.hessian(u, x, i=0, j=0)

    geometry = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 1))
    conditions = [
        dde.icbc.DirichletBC(geometry, lambda x: 0, lambda _, is_edge: is_edge),
        dde.icbc.IC(geometry, lambda x: -np.sin(np.pi * x[:, :1]), lambda _, is_start: is_start),
    ]
    data = dde.data.TimePDE(geometry, equation, conditions, num_domain=2540, num_boundary=80, num_initial=160)
    model = dde.Model(data, dde.nn.FNN([2, 20, 20, 20, 1], "tanh", "Glorot normal"))
    model.compile("adam", lr=1e-3)
    started = time.process_time()
    _train(model, 15_000, 0.8 * seconds)
    model.compile("L-BFGS")
    _train(model, None, seconds - (time.process_time() - started))
    return model.predict


def helmholtz(wavenumber: float):
    def train(seconds: float):
        import deepxde as dde

        exact = READY["helmholtz"](wavenumber=wavenumber).reference
        edge = dde.icbc.DirichletBC(_square(), lambda x: exact(x)[:, None], lambda _, is_edge: is_edge)
        return _helmholtz(wavenumber, lambda x: 0.0, [edge], None, seconds)

    return train


def helmholtz_example(seconds: float):
    import torch

    def vanishing(x, u):
        return torch.prod(x * (1 - x), dim=1, keepdim=True) * u

    return _helmholtz(
        4 * np.pi, lambda x: (4 * np.pi) ** 2 * torch.prod(torch.sin(4 * np.pi * x), 1, True), [], vanishing, seconds
    )


def _square():
    import deepxde as dde

    return dde.geometry.Rectangle([0, 0], [1, 1])


def _helmholtz(wavenumber: float, source, conditions: list, transform, seconds: float):
    """Laplace u + k^2 u + source = 0."""
    import deepxde as dde
    import torch

    def equation(x, u):
        curvature = dde.grad.hessian(u, x, i=0, j=0) + dde.grad.hessian(u, x, i=1, j=1)
        return curvature + wavenumber**2 * u + source(x)

    side = int(np.ceil(10 * wavenumber / (2 * np.pi)))
    data = dde.data.PDE(_square(), equation, conditions, num_domain=side**2, num_boundary=4 * side)
    network = dde.nn.FNN([2, 150, 150, 150, 1], torch.sin, "Glorot uniform")
    if transform is not None:
        network.apply_output_transform(transform)
    model = dde.Model(data, network)
    model.compile("adam", lr=1e-3, loss_weights=[1, 100] if conditions else None)
    _train(model, 10**7, seconds)
    return model.predict


def example_problem() -> Ready:
    """The Helmholtz problem of DeepXDE's example, for grades."""
    k = 4 * np.pi

    def exact(x):
        return jnp.sin(k * x[0]) * jnp.sin(k * x[1])

    problem = Problem(
        Box((0.0, 0.0), (1.0, 1.0)), lambda u, x: laplacian(u, x) + k**2 * (u(x) + exact(x)),
        [Condition(lambda u, x: u(x))], name="Helmholtz of DeepXDE's example",
    )  # fmt: skip
    reference = lambda points: np.prod(np.sin(k * points), axis=1)  # noqa: E731
    return Ready(problem.name, lambda **options: solve(problem, **options), reference, problem.domain)  # pyright: ignore


def _train(model, steps: int | None, seconds: float) -> None:
    import deepxde as dde

    class Clock(dde.callbacks.Callback):
        def on_epoch_end(self):
            self.model.stop_training = time.process_time() - started > seconds

    started = time.process_time()
    model.train(iterations=steps, display_every=10**7, verbose=0, callbacks=[Clock()])


CASES = {
    "helmholtz example": (example_problem(), helmholtz_example, {}),
    "helmholtz 50": (READY["helmholtz"](wavenumber=50.0), helmholtz(50.0), {}),
    "burgers": (READY["burgers"](viscosity=BURGERS_VISCOSITY), burgers, {"max_features": 750}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--factors", default="1,10")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    print("| problem | method | error | seconds | error / ours |\n|---|---|---|---|---|")
    for name in options.only.split(","):
        ready, train, settings = CASES[name]
        started = time.process_time()
        solution = ready.solve(quiet=True, **settings)
        taken, ours = time.process_time() - started, ready.error(solution)
        print(f"| {ready.name} | grades | {ours:.1e} | {taken:.1f} | 1 |", flush=True)
        for factor in map(float, options.factors.split(",")):
            started = time.process_time()
            error = ready.error(train(factor * taken))  # pyright: ignore[reportArgumentType]
            seconds = time.process_time() - started
            print(f"| {ready.name} | DeepXDE | {error:.1e} | {seconds:.1f} | {error / ours:.1e} |", flush=True)


if __name__ == "__main__":
    main()
