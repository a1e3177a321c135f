"""What locking the embedded cluster costs, and what an egress check costs."""

from __future__ import annotations

from flows.environment import prepare_environment
from lab.benchmarks.figures import Figures, seconds

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

    starts, ways = [], []
    for make in (plain, locked):
        starts.append(seconds(lambda make=make: make().close(), 5))
        with make() as cluster, Client(cluster) as client:
            ways.append(
                seconds(lambda client=client: client.submit(abs, -1, pure=False).result(), 200)
            )
    print(f"cluster of {WORKERS}: plain {starts[0]:.2f} s, with a certificate {starts[1]:.2f} s")
    print(f"one task: plain {1000 * ways[0]:.1f} ms, with a certificate {1000 * ways[1]:.1f} ms")
    figures.at_most("certificate-adds-to-a-cluster-s-start", starts[1] - starts[0], 1, " s")
    figures.at_most("certificate-task-time-over-plain", ways[1] / ways[0], 1.5, "x")


if __name__ == "__main__":
    measured = Figures()
    measure(measured)
    measured.finish()
