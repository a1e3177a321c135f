"""What locking the embedded cluster costs, and what an egress check costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flows.environment import prepare_environment
from lab.benchmarks.figures import Figures, seconds

if TYPE_CHECKING:
    from distributed import LocalCluster

WORKERS = 2


def measure(figures: Figures) -> None:
    """Start of a cluster and a task's way with and without a certificate, as ratios."""
    prepare_environment()
    from distributed import Client, LocalCluster

    from flows.runtime import LOCAL_CLUSTER, local_cluster

    def plain() -> LocalCluster:
        return LocalCluster(n_workers=WORKERS, **LOCAL_CLUSTER)

    def locked() -> LocalCluster:
        return local_cluster(WORKERS)

    def times(make: Callable[[], LocalCluster]) -> tuple[float, float]:
        """Of a start, and of a task's way."""
        start = seconds(lambda: make().close(), 5)
        with make() as cluster, Client(cluster) as client:
            return start, seconds(lambda: client.submit(abs, -1, pure=False).result(), 200)

    starts, ways = zip(times(plain), times(locked), strict=True)
    print(f"cluster of {WORKERS}: plain {starts[0]:.2f} s, with a certificate {starts[1]:.2f} s")
    print(f"one task: plain {1000 * ways[0]:.1f} ms, with a certificate {1000 * ways[1]:.1f} ms")
    figures.at_most("certificate-adds-to-a-cluster-s-start", starts[1] - starts[0], 1, " s")
    figures.at_most("certificate-task-time-over-plain", ways[1] / ways[0], 1.5, "x")


if __name__ == "__main__":
    measured = Figures()
    measure(measured)
    measured.finish()
