"""The peers: each module runs in a child process of its own and serves `benchmarks.cpu.child`."""
