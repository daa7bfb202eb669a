"""The JAX beneath us computes what it should."""

import jax
import jax.numpy as jnp


def test_vmapped_matrix_vector_product_then_reduction_is_right():
    """jax issue 39103: 0.10.2 on CPU gave 1065369600 here. Sum over i, j of 1 * j with 2 rows: 2 * n (n - 1) / 2."""
    n = 32769
    matrix = jnp.broadcast_to(jnp.arange(n, dtype=jnp.float32), (2, n))
    product = jax.jit(lambda m, v: jnp.sum(jax.vmap(lambda row: row * v)(m)))(matrix, jnp.ones(n))
    assert abs(float(product) - n * (n - 1)) < 1e-3 * n * n
    vectors = jnp.ones((1, n), jnp.float32)
    total = jax.jit(lambda a, b: jnp.sum(jax.vmap(lambda v: a @ v)(b)))(jnp.full((1, n), 32768.0), vectors)
    assert float(total) == 1073774592.0  # 32769 * 32768, exact in float32
