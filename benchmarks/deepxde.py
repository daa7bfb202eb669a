"""DeepXDE beside grades on the same problems, in the same time (optional: pip install deepxde torch).

    DDE_BACKEND=pytorch python -m benchmarks.deepxde                # as long as our own solution took, and 10 times
    DDE_BACKEND=pytorch python -m benchmarks.deepxde --factors 1,100

The settings are those of DeepXDE's own examples for these equations. Burgers: 2,540 points inside, 80 on the boundary,
160 at the start, three layers of 20 tanh neurons, Adam at 1e-3 for 15,000 steps and then L-BFGS. Helmholtz: 10 points
per wavelength along a side, three layers of 150 sine neurons, Adam at 1e-3, boundary loss times 100. Seconds are those
of one core (process time, one thread), our compilation included, DeepXDE's left out. Where L-BFGS follows, Adam ends
after four fifths of the time at the latest.
"""

import argparse
import time

import numpy as np

from multigrade.equations import READY

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
        import torch

        exact = READY["helmholtz"](wavenumber=wavenumber).reference
        geometry = dde.geometry.Rectangle([0, 0], [1, 1])
        side = int(np.ceil(10 * wavenumber / (2 * np.pi)))
        condition = dde.icbc.DirichletBC(geometry, lambda x: exact(x)[:, None], lambda _, is_edge: is_edge)

        def equation(x, u):
            curvature = dde.grad.hessian(u, x, i=0, j=0) + dde.grad.hessian(u, x, i=1, j=1)
            return curvature + wavenumber**2 * u

        data = dde.data.PDE(geometry, equation, condition, num_domain=side**2, num_boundary=4 * side)
        model = dde.Model(data, dde.nn.FNN([2, 150, 150, 150, 1], torch.sin, "Glorot uniform"))
        model.compile("adam", lr=1e-3, loss_weights=[1, 100])
        _train(model, 10**7, seconds)
        return model.predict

    return train


def _train(model, steps: int | None, seconds: float) -> None:
    import deepxde as dde

    class Clock(dde.callbacks.Callback):
        def on_epoch_end(self):
            self.model.stop_training = time.process_time() - started > seconds

    started = time.process_time()
    model.train(iterations=steps, display_every=10**7, verbose=0, callbacks=[Clock()])


CASES = {
    "helmholtz 10": (READY["helmholtz"](wavenumber=10.0), helmholtz(10.0), {}),
    "helmholtz 50": (READY["helmholtz"](wavenumber=50.0), helmholtz(50.0), {}),
    "burgers": (READY["burgers"](viscosity=BURGERS_VISCOSITY), burgers, {"max_features": 1500}),
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
