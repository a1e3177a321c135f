import time
from tests.harness import *
from tests.harness import world
def test_speed(world):
    for i in range(3):
        t=time.time(); world.sweep(f"a{i}"); print("inproc", time.time()-t)
    for i in range(2):
        t=time.time(); r=world.dpicl("run","demo",*SMALL_OPTIONS,"--run-id",f"b{i}"); print("subproc", time.time()-t, r.returncode, r.stdout[-300:], r.stderr)
